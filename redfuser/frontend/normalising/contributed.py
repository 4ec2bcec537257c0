"""Operators of the domain com.microsoft, each by its definition in operators of ONNX.

ONNX knows none of them, so neither their types nor their meaning is known to what follows; ONNX Runtime computes most
of them in float32 alone. The definition serves the compile and the float64 oracle; ONNX Runtime's own kernels stay
the independent opinion.

Source: the operators' schemas in ONNX Runtime (``onnxruntime/docs/ContribOperators.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from redfuser.frontend.normalising.contributed_attention import define_attention
from redfuser.frontend.normalising.definition import Definition, Widened

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto

DOMAIN = "com.microsoft"

#: Of normalisations that don't give one.
EPSILON = 1e-12


def define(node: NodeProto, type_of: Callable[[str], TypeProto], opset: int) -> list[NodeProto] | None:
    """The nodes that define ``node``, named after it; None if it is none of these operators.

    Args:
        type_of: element type and rank of what the node reads.
        opset: version of ONNX's own operators to write it in, 17 at least.

    Raises:
        UnsupportedOperatorError: the operator is known, but not this use of it.
    """
    if node.domain != DOMAIN or node.op_type not in _DEFINITIONS:
        return None
    if not all(type_of(name).WhichOneof("value") == "tensor_type" for name in filter(None, node.input)):
        return None  # of an operator before it the importer knows nothing, and refuses that one
    writer = Definition(node, type_of, opset)
    _DEFINITIONS[node.op_type](writer)
    writer.require_attributes_read()
    return writer.nodes


def _gelu(write: Definition) -> None:
    _erf_gelu(write, write.input(0))


def _bias_gelu(write: Definition) -> None:
    _erf_gelu(write, write.add("Add", write.input(0), write.input(1)))


def _erf_gelu(write: Definition, x: str) -> None:
    """``x/2 · (1 + erf(x/√2))``."""
    kind = write.element_type(0)
    half, one, root = (write.number(value, kind) for value in (0.5, 1.0, math.sqrt(0.5)))
    factor = write.add("Add", write.add("Erf", write.add("Mul", x, root)), one)
    write.add("Mul", write.add("Mul", x, half), factor, out=write.output(0))


def _fast_gelu(write: Definition) -> None:
    """``x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))`` of input and bias, if there is one."""
    kind = write.element_type(0)
    x = write.total(write.input(0), write.input(1))
    half, one, cubic, scale = (write.number(v, kind) for v in (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi)))
    cube = write.add("Mul", write.add("Mul", x, x), x)
    inner = write.add("Mul", scale, write.add("Add", x, write.add("Mul", cubic, cube)))
    write.add("Mul", write.add("Mul", x, half), write.add("Add", write.add("Tanh", inner), one), out=write.output(0))


def _skip_layer_norm(write: Definition) -> None:
    """LayerNormalization of input + skip + bias; outputs: it, mean, inverse deviation, the sum."""
    total = write.total(write.input(0), write.input(1), write.input(4), out=write.output(3))
    _layer_norm(write, total, write.input(2), write.input(3), [write.output(place) for place in range(3)])


def _layer_norm(write: Definition, value: str, scale: str, shift: str, outputs: Sequence[str]) -> None:
    """Half precision in float32, rounded once; the statistics stay float32."""
    wide = Widened(write)
    result, *statistics = outputs
    inputs = [wide.cast(value), wide.cast(scale), *([wide.cast(shift)] if shift else [])]
    epsilon = write.attribute("epsilon", EPSILON)
    names = [wide.place(result), *statistics]
    while len(names) > 1 and not names[-1]:
        names.pop()
    write.add_many("LayerNormalization", inputs, names, axis=-1, epsilon=epsilon)
    wide.round(names[0], result)


def _skip_rms_norm(write: Definition) -> None:
    """Input + skip + bias, divided by the root of its mean square; outputs as of SkipLayerNormalization, no mean."""
    if write.output(1):
        write.refuse("its output mean")
    total = write.total(write.input(0), write.input(1), write.input(3), out=write.output(3))
    wide = Widened(write)
    x = wide.cast(total)
    square = write.add(
        "Add", write.mean(write.add("Mul", x, x)), write.number(write.attribute("epsilon", EPSILON), wide.kind)
    )
    root = write.add("Sqrt", square)
    if write.output(2):
        write.add("Reciprocal", root, out=write.output(2))
    scaled = wide.place(write.output(0))
    write.add("Mul", write.add("Div", x, root), wide.cast(write.input(2)), out=scaled)
    wide.round(scaled, write.output(0))


def _embed_layer_norm(write: Definition) -> None:
    """The sum of word, position and segment embeddings, normalised; outputs: it, words in each row, the sum."""
    ids, segments, mask = write.input(0), write.input(1), write.input(7)
    positions = write.input(8)
    if positions:
        places = write.add("Gather", write.input(3), positions)
    else:
        length = write.add("Shape", ids, start=1, end=2)
        places = write.add("Slice", write.input(3), write.integers(0), length, write.integers(0))
    words = write.add("Gather", write.input(2), ids)
    kinds = write.add("Gather", write.input(4), segments) if segments else ""
    total = write.total(words, places, kinds, out=write.output(2))
    write.attribute("mask_index_type", 0)  # what inference makes of the second output: said by its being there
    if write.output(1):
        _word_counts(write, ids, mask)
    _layer_norm(write, total, write.input(5), write.input(6), [write.output(0)])


def _word_counts(write: Definition, ids: str, mask: str) -> None:
    from onnx import TensorProto

    if mask:
        counted = write.add("Equal", mask, write.number(1, write.element_type(7)))
        ones = write.add("Cast", counted, to=int(TensorProto.INT32))
        write.add("ReduceSum", ones, write.integers(1), out=write.output(1), keepdims=0)
    else:
        zero = write.number(0, int(TensorProto.INT32))
        write.add("Expand", zero, write.add("Shape", ids, start=0, end=1), out=write.output(1))


def _mat_mul_integer_16(write: Definition) -> None:
    """In 32 bits, unsigned if both operands are."""
    from onnx import TensorProto

    unsigned = all(write.element_type(place) == TensorProto.UINT16 for place in (0, 1))
    kind = int(TensorProto.UINT32 if unsigned else TensorProto.INT32)
    operands = [write.add("Cast", write.input(place), to=kind) for place in (0, 1)]
    write.add("MatMul", *operands, out=write.output(0))


_DEFINITIONS: dict[str, Callable[[Definition], None]] = {
    "Attention": define_attention,
    "BiasGelu": _bias_gelu,
    "EmbedLayerNormalization": _embed_layer_norm,
    "FastGelu": _fast_gelu,
    "Gelu": _gelu,
    "MatMulInteger16": _mat_mul_integer_16,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
}
