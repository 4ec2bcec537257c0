"""ONNX operators in double precision, for the float64 oracle; NumPy alone.

These are the operators whose reference implementation, or definition, rounds to float32 inside. A function takes
inputs in ONNX's order and attributes in ONNX's names, and gives the output, or a tuple of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from redfuser.frontend.normalising.own import APPEND, DOMAIN
from redfuser.oracle.recurrences import recurrent

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Results = Array | tuple[Array, ...]


def double_operators() -> list[type]:
    """Classes that :class:`onnx.reference.ReferenceEvaluator` takes as ``new_ops``."""
    own = _operator(APPEND, _append, DOMAIN)
    return [own, *(_operator(kind, compute) for kind, compute in _OPERATORS.items())]


def _operator(kind: str, compute: Callable[..., Results], domain: str = "") -> type:
    from onnx.reference.op_run import OpRun

    def run(_: OpRun, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        results = compute(*inputs, **attributes)
        return results if isinstance(results, tuple) else (results,)

    return type(kind, (OpRun,), {"_run": run, "op_domain": domain})


def _append(past: Array, new: Array, before: Array, room: Array) -> Array:
    """Of our own domain: each sequence's first rows of the past, then the new ones, then 0."""
    import numpy as np

    result = np.zeros((*new.shape[:2], int(room), new.shape[3]), new.dtype)
    for row, count in enumerate(before.reshape(-1)):
        result[row, :, :count] = past[row, :, :count]
        result[row, :, count : count + new.shape[2]] = new[row]
    return result


def _attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    *state: Array | None,
    scale: float | None = None,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
    softmax_precision: int | None = None,
    **attributes: Any,
) -> tuple[Array, ...]:
    import numpy as np
    from onnx.reference.ops.op_attention import _compute_attention

    if mask is not None and (mask.ndim == 1 or mask.shape[-2] == 1):  # the reference takes its rows for the queries
        mask = np.broadcast_to(mask, (*mask.shape[:-2], q.shape[-2], mask.shape[-1]))
    attributes |= {
        "scale": None if scale is None else float(scale),  # its root is taken in the type it has
        "qk_matmul_output_mode": qk_matmul_output_mode,
        "_validate_attention25": False,
    }

    def attend(softcap: float) -> tuple[Array, ...]:
        return tuple(_compute_attention(q, k, v, mask, *state, softcap=softcap, **attributes))

    results = attend(softcap)
    # The reference hands out capped scores where ONNX says scores.
    return results if qk_matmul_output_mode or not softcap else (*results[:3], attend(0.0)[3])


def _erf(x: Array) -> Array:
    import numpy as np

    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu(x: Array, approximate: str = "none") -> Array:
    import numpy as np

    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + _erf(x / math.sqrt(2)))


def _hard_swish(x: Array) -> Array:
    return x * (x / 6 + 0.5).clip(0, 1)


def _dynamic_quantize_linear(x: Array) -> tuple[Array, ...]:
    import numpy as np

    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    scale = (high - low) / 255 or 1.0
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.array(scale), zero.astype(np.uint8)


def _global_max_pool(x: Array) -> Array:
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


def _group_normalization(
    x: Array, scale: Array, bias: Array, epsilon: float = 1e-5, num_groups: int = 1, stash_type: int = 1
) -> Array:
    import numpy as np

    groups = x.reshape(x.shape[0], num_groups, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
    # Before operator set 21 there is one scale for each group, not for each channel.
    per = (np.repeat(v, x.shape[1] // v.size).reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias))
    return normal * next(per) + next(per)


def _layer_normalization(
    x: Array, scale: Array, bias: Array | None = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Array, ...]:
    import numpy as np

    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
    return (x - mean) * inverse * scale + (0 if bias is None else bias), mean, inverse


def _log_softmax(x: Array, axis: int = -1) -> Array:
    import numpy as np

    shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _mean_variance_normalization(x: Array, axes: Sequence[int] = (0, 2, 3)) -> Array:
    import numpy as np

    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / (np.sqrt((centred**2).mean(tuple(axes), keepdims=True)) + 1e-9)


def _recurrent(kind: str, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
    return recurrent(kind, inputs, attributes)


_OPERATORS: dict[str, Callable[..., Results]] = {
    "Attention": _attention,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "Erf": _erf,
    "GRU": partial(_recurrent, "GRU"),
    "Gelu": _gelu,
    "GlobalMaxPool": _global_max_pool,
    "GroupNormalization": _group_normalization,
    "HardSwish": _hard_swish,
    "LSTM": partial(_recurrent, "LSTM"),
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _log_softmax,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "RNN": partial(_recurrent, "RNN"),
}
