"""Which operators of the domain com.microsoft have a definition here, and their place among ONNX's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.contributed import activations, norms, products, q_blocks, q_linear, quantised
from redfuser.frontend.normalising.contributed.attention import define_attention
from redfuser.frontend.normalising.contributed.group_query import define_group_query_attention
from redfuser.frontend.normalising.contributed.multi_head import define_multi_head_attention
from redfuser.frontend.normalising.contributed.rotary import define_rotary_embedding
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.own import DOMAIN as OWN_DOMAIN
from redfuser.frontend.reading.walk import graphs_of, nodes_of

if TYPE_CHECKING:
    import numpy
    from onnx import ModelProto, NodeProto, TypeProto

    Array = numpy.ndarray[Any, Any]

DOMAIN = "com.microsoft"

#: Operators that ONNX Runtime writes as if they were ONNX's: the operator set in which ONNX has them too, if any.
_MISPLACED = {"LayerNormalization": 17, "SimplifiedLayerNormalization": math.inf}


def adopt(proto: ModelProto) -> None:
    """Move what ONNX Runtime writes into ONNX's domain, and ONNX doesn't know, to ONNX Runtime's. Changed in place.

    Raises:
        UnsupportedOperatorError: a node is in the domain of our own operators, which definitions alone may use.
    """
    opset = opset_of(proto)
    for node in (node for node in nodes_of(proto) if node.domain == OWN_DOMAIN):
        raise UnsupportedOperatorError(
            f"operator {node.op_type} of domain '{node.domain}' (node '{node.name}') is not supported",
            "replace the operator in the model, or compile the part of the model without it",
        )
    nodes = [node for graph in graphs_of(proto) for node in graph.node if node.domain in ("", "ai.onnx")]
    moved = [node for node in nodes if opset < _MISPLACED.get(node.op_type, 0)]
    for node in moved:
        node.domain = DOMAIN
    if moved and all(opset.domain != DOMAIN for opset in proto.opset_import):
        proto.opset_import.add(domain=DOMAIN, version=1)


def define(
    node: NodeProto, type_of: Callable[[str], TypeProto], opset: int, value_of: Callable[[str], Array | None]
) -> list[NodeProto] | None:
    """The nodes that define ``node``, named after it; None if it is none of these operators.

    Args:
        type_of: element type and rank of what the node reads.
        opset: version of ONNX's own operators to write it in, 17 at least.
        value_of: contents of what the node reads; None if they are known on the call only.

    Raises:
        UnsupportedOperatorError: the operator is known, but not this use of it.
    """
    if node.domain != DOMAIN or node.op_type not in _DEFINITIONS:
        return None
    if not all(type_of(name).WhichOneof("value") == "tensor_type" for name in filter(None, node.input)):
        return None  # of an operator before it the importer knows nothing, and refuses that one
    writer = Definition(node, type_of, opset, value_of)
    _DEFINITIONS[node.op_type](writer)
    writer.require_attributes_read()
    return writer.nodes


_DEFINITIONS: dict[str, Callable[[Definition], None]] = {
    "Attention": define_attention,
    "BiasAdd": products.define_bias_add,
    "BiasGelu": activations.define_bias_gelu,
    "DequantizeLinear": quantised.define_dequantize,
    "DynamicQuantizeLSTM": quantised.define_dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": quantised.define_dynamic_quantize_mat_mul,
    "EmbedLayerNormalization": norms.define_embed_layer_norm,
    "FastGelu": activations.define_fast_gelu,
    "FusedConv": products.define_fused_conv,
    "FusedGemm": products.define_fused_gemm,
    "FusedMatMul": products.define_fused_mat_mul,
    "Gelu": activations.define_gelu,
    "GroupQueryAttention": define_group_query_attention,
    "LayerNormalization": norms.define_layer_norm,
    "MatMulInteger16": products.define_mat_mul_integer_16,
    "MatMulIntegerToFloat": quantised.define_mat_mul_integer_to_float,
    "MatMulNBits": quantised.define_mat_mul_n_bits,
    "MultiHeadAttention": define_multi_head_attention,
    "QAttention": q_blocks.define_attention,
    "QEmbedLayerNormalization": q_blocks.define_embed_layer_norm,
    "QGemm": q_linear.define_gemm,
    "QLinearAdd": q_linear.define_add,
    "QLinearAveragePool": q_linear.define_average_pool,
    "QLinearConcat": q_linear.define_concat,
    "QLinearGlobalAveragePool": q_linear.define_global_average_pool,
    "QLinearLeakyRelu": q_linear.define_leaky_relu,
    "QLinearMul": q_linear.define_mul,
    "QLinearReduceMean": q_linear.define_reduce_mean,
    "QLinearSigmoid": q_linear.define_sigmoid,
    "QLinearSoftmax": q_linear.define_softmax,
    "QLinearWhere": q_linear.define_where,
    "QuantizeLinear": quantised.define_quantize,
    "QuickGelu": activations.define_quick_gelu,
    "RotaryEmbedding": define_rotary_embedding,
    "SimplifiedLayerNormalization": norms.define_rms_norm,
    "SkipLayerNormalization": norms.define_skip_layer_norm,
    "SkipSimplifiedLayerNormalization": norms.define_skip_rms_norm,
}
