"""ONNX operators in double precision, for the float64 oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redfuser.oracle.recurrences import recurrent

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def double_operators() -> list[type]:
    """Operators whose reference implementation, or definition, rounds to float32 inside."""
    import math

    import numpy as np
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_attention import _compute_attention

    class Attention(OpRun):
        def _run(
            self,
            q: Array,
            k: Array,
            v: Array,
            *optional: Array | None,
            scale: float | None = None,
            is_causal: int = 0,
            q_num_heads: int | None = None,
            kv_num_heads: int | None = None,
            softmax_precision: int | None = None,
            softcap: float = 0.0,
            qk_matmul_output_mode: int = 0,
            left_window_size: int = -1,
            right_window_size: int = -1,
        ) -> tuple[Array, ...]:
            mask, *rest = optional or (None,)
            if mask is not None and mask.shape[-2] == 1:  # the reference takes its rows for the queries
                mask = np.broadcast_to(mask, (*mask.shape[:-2], q.shape[-2], mask.shape[-1]))

            def attend(softcap: float) -> tuple[Array, ...]:
                return tuple(
                    _compute_attention(
                        q,
                        k,
                        v,
                        mask,
                        *rest,
                        scale=None if scale is None else float(scale),  # its root is taken in the type it has
                        is_causal=is_causal,
                        q_num_heads=q_num_heads,
                        kv_num_heads=kv_num_heads,
                        softcap=softcap,
                        qk_matmul_output_mode=qk_matmul_output_mode,
                        left_window_size=left_window_size,
                        right_window_size=right_window_size,
                        _validate_attention25=False,
                    )
                )

            results = attend(softcap)
            # The reference hands out capped scores where ONNX says scores.
            return results if qk_matmul_output_mode or not softcap else (*results[:3], attend(0.0)[3])

    def erf(x: Array) -> Array:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    class Erf(OpRun):
        def _run(self, x: Array) -> tuple[Array]:
            return (erf(x),)

    class Gelu(OpRun):
        def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
            if approximate == "tanh":
                return (x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
            return (x / 2 * (1 + erf(x / math.sqrt(2))),)

    class HardSwish(OpRun):
        def _run(self, x: Array) -> tuple[Array]:
            return (x * np.clip(x / 6 + 0.5, 0, 1),)

    class DynamicQuantizeLinear(OpRun):
        def _run(self, x: Array) -> tuple[Array, Array, Array]:
            low, high = min(x.min(), 0.0), max(x.max(), 0.0)
            scale = (high - low) / 255 or 1.0
            zero = np.clip(np.rint(-low / scale), 0, 255)
            return (np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.array(scale), zero.astype(np.uint8))

    class GlobalMaxPool(OpRun):
        def _run(self, x: Array) -> tuple[Array]:
            return (x.max(tuple(range(2, x.ndim)), keepdims=True),)

    class GroupNormalization(OpRun):
        def _run(
            self, x: Array, scale: Array, bias: Array, epsilon: float = 1e-5, num_groups: int = 1, stash_type: int = 1
        ) -> tuple[Array]:
            groups = x.reshape(x.shape[0], num_groups, -1)
            centred = groups - groups.mean(-1, keepdims=True)
            normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
            # Before operator set 21 there is one scale for each group, not for each channel.
            per = (np.repeat(v, x.shape[1] // v.size).reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias))
            return (normal * next(per) + next(per),)

    class LayerNormalization(OpRun):
        def _run(
            self,
            x: Array,
            scale: Array,
            bias: Array | None = None,
            axis: int = -1,
            epsilon: float = 1e-5,
            stash_type: int = 1,
        ) -> tuple[Array, Array, Array]:
            axes = tuple(range(axis % x.ndim, x.ndim))
            mean = x.mean(axes, keepdims=True)
            inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)
            return ((x - mean) * inverse * scale + (0 if bias is None else bias), mean, inverse)

    class LogSoftmax(OpRun):
        def _run(self, x: Array, axis: int = -1) -> tuple[Array]:
            shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
            return (shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)),)

    class MeanVarianceNormalization(OpRun):
        def _run(self, x: Array, axes: Sequence[int] = (0, 2, 3)) -> tuple[Array]:
            centred = x - x.mean(tuple(axes), keepdims=True)
            return (centred / (np.sqrt((centred**2).mean(tuple(axes), keepdims=True)) + 1e-9),)

    def layer(kind: str) -> type:
        def run(self: OpRun, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
            return recurrent(kind, inputs, attributes)

        return type(kind, (OpRun,), {"_run": run})

    return [
        *map(layer, ("GRU", "LSTM", "RNN")),
        Attention,
        DynamicQuantizeLinear,
        Erf,
        Gelu,
        GlobalMaxPool,
        GroupNormalization,
        HardSwish,
        LayerNormalization,
        LogSoftmax,
        MeanVarianceNormalization,
    ]
