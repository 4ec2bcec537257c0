"""ReduceMax and ReduceMin as bare reductions, without the stock chain that looks for NaN."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Converter, Inputs, constant, optional


def _reduction(reduce: Callable[..., relax.Expr]) -> Converter:
    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        data, given = inputs[0], optional(inputs, 1)
        axes = list(attributes.get("axes", ())) if given is None else constant(given, "axes").tolist()
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return data
        return reduce(data, [int(axis) for axis in axes] or None, bool(attributes.get("keepdims", 1)))

    return convert


CONVERT_REDUCE_MAX = _reduction(R.max)
CONVERT_REDUCE_MIN = _reduction(R.min)
