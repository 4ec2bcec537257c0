"""ONNX operators that TVM's stock converters get wrong or lack, as Relax expressions. Imports TVM."""

from collections.abc import Callable, Sequence

from tvm import relax

from redfuser.frontend.converters.append import convert_append
from redfuser.frontend.converters.attention import convert_attention
from redfuser.frontend.converters.casts import convert_small_cast
from redfuser.frontend.converters.common import Attributes, Converter, Inputs, widened
from redfuser.frontend.converters.elementwise import (
    CONVERT_MAX,
    CONVERT_MIN,
    convert_clip,
    convert_equal,
    convert_is_inf,
    convert_mod,
    convert_one_hot,
    convert_pow,
    convert_prelu,
    convert_thresholded_relu,
)
from redfuser.frontend.converters.fourier import convert_dft
from redfuser.frontend.converters.gather import convert_gather, convert_gather_elements, convert_gather_nd
from redfuser.frontend.converters.guards import refuse_wrong_use
from redfuser.frontend.converters.linear import convert_gemm, convert_mat_mul
from redfuser.frontend.converters.norms import (
    convert_batch_norm,
    convert_instance_norm,
    convert_layer_norm,
    convert_lp_norm,
    convert_mean_variance_norm,
    convert_rms_norm,
)
from redfuser.frontend.converters.padding import convert_pad
from redfuser.frontend.converters.patches import convert_col2im
from redfuser.frontend.converters.quantize import (
    convert_cast,
    convert_dequantize,
    convert_dynamic_quantize,
    convert_mat_mul_integer,
    convert_q_linear_mat_mul,
    convert_quantize,
)
from redfuser.frontend.converters.recurrent import convert_recurrent
from redfuser.frontend.converters.reductions import (
    CONVERT_REDUCE_MAX,
    CONVERT_REDUCE_MEAN,
    CONVERT_REDUCE_MIN,
    convert_reduce_log_sum_exp,
    keep_map,
    of_integers,
)
from redfuser.frontend.converters.resize import convert_resize
from redfuser.frontend.converters.sampling import convert_grid_sample
from redfuser.frontend.converters.scatter import convert_scatter_elements, convert_scatter_nd
from redfuser.frontend.converters.selection import (
    CONVERT_ARG_MAX,
    CONVERT_ARG_MIN,
    convert_cum_sum,
    convert_hardmax,
    convert_top_k,
)
from redfuser.frontend.converters.shapes import convert_expand, convert_reshape, convert_tile, convert_unsqueeze
from redfuser.frontend.converters.slice import convert_slice

__all__ = ["CONVERTERS", "Converter", "converter_of", "widened"]

#: Operator of the default domain -> our converter.
CONVERTERS: dict[str, Converter] = {
    "ArgMax": CONVERT_ARG_MAX,
    "ArgMin": CONVERT_ARG_MIN,
    "Append": convert_append,
    "Attention": convert_attention,
    "BatchNormalization": convert_batch_norm,
    "Clip": convert_clip,
    "Col2Im": convert_col2im,
    "CumSum": convert_cum_sum,
    "DFT": convert_dft,
    "DequantizeLinear": convert_dequantize,
    "DynamicQuantizeLinear": convert_dynamic_quantize,
    "Expand": convert_expand,
    "Gather": convert_gather,
    "GatherElements": convert_gather_elements,
    "GatherND": convert_gather_nd,
    "GRU": convert_recurrent("GRU"),
    "Gemm": convert_gemm,
    "GridSample": convert_grid_sample,
    "Hardmax": convert_hardmax,
    "InstanceNormalization": convert_instance_norm,
    "IsInf": convert_is_inf,
    "LSTM": convert_recurrent("LSTM"),
    "LayerNormalization": convert_layer_norm,
    "LpNormalization": convert_lp_norm,
    "MatMul": convert_mat_mul,
    "MatMulInteger": convert_mat_mul_integer,
    "Max": CONVERT_MAX,
    "MeanVarianceNormalization": convert_mean_variance_norm,
    "Min": CONVERT_MIN,
    "PRelu": convert_prelu,
    "Pad": convert_pad,
    "Pow": convert_pow,
    "QLinearMatMul": convert_q_linear_mat_mul,
    "QuantizeLinear": convert_quantize,
    "RMSNormalization": convert_rms_norm,
    "RNN": convert_recurrent("RNN"),
    "ReduceLogSumExp": of_integers(convert_reduce_log_sum_exp),
    "ReduceMax": CONVERT_REDUCE_MAX,
    "ReduceMean": CONVERT_REDUCE_MEAN,
    "ReduceMin": CONVERT_REDUCE_MIN,
    "Reshape": convert_reshape,
    "ThresholdedRelu": convert_thresholded_relu,
    "Tile": convert_tile,
    "TopK": convert_top_k,
}

#: Converters that leave common uses to TVM's own.
_ADAPTERS: dict[str, Callable[[Converter], Converter]] = {
    "Cast": lambda stock: convert_cast(convert_small_cast(stock)),
    "Equal": convert_equal,
    "Mod": convert_mod,
    "OneHot": convert_one_hot,
    "ReduceL1": keep_map(relax.op.abs),
    "ReduceL2": lambda stock: of_integers(keep_map(relax.op.abs)(stock)),
    "ReduceLogSum": lambda stock: of_integers(keep_map(relax.op.log)(stock)),
    "ReduceSumSquare": keep_map(lambda x: relax.op.multiply(x, x)),
    "Resize": convert_resize,
    "ScatterElements": convert_scatter_elements,
    "ScatterND": convert_scatter_nd,
    "Slice": convert_slice,
    "Unsqueeze": convert_unsqueeze,
}

#: Computed in float32 on half-precision inputs: what accumulates and has no wide accumulator of its own, and functions
#: that TVM computes in float32 alone.
_WIDENED = frozenset(
    [
        *("Acosh", "Asinh", "Atanh", "Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Shrink", "Softplus"),
        "AveragePool",
        "Col2Im",
        "Conv",
        "ConvTranspose",
        "CumSum",
        "Einsum",
        "GRU",
        "GlobalAveragePool",
        "GlobalLpPool",
        "GridSample",
        "InstanceNormalization",
        "LRN",
        "LSTM",
        "LogSoftmax",
        "LpNormalization",
        "LpPool",
        "MeanVarianceNormalization",
        "Mod",
        "RMSNormalization",
        "RNN",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Softmax",
    ]
)

#: Choices of an element and truth values, the same in float32: TVM has no code for them in bfloat16.
_WITHOUT_BFLOAT16 = frozenset(
    ["ArgMax", "ArgMin", "Hardmax", "IsNaN", "Max", "Min", "PRelu", "Sign", "ThresholdedRelu", "TopK"]
)


def converter_of(operator: str, stock: Converter) -> Converter:
    """Our converter of an operator of the default domain, or TVM's; with a wide accumulator in any case."""

    def guarded(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        refuse_wrong_use(operator, inputs, attributes)
        return stock(bb, inputs, attributes)

    convert = _ADAPTERS[operator](guarded) if operator in _ADAPTERS else CONVERTERS.get(operator, guarded)
    if operator in _WITHOUT_BFLOAT16:
        return widened(convert, frozenset({"bfloat16"}))
    return widened(convert) if operator in _WIDENED else convert
