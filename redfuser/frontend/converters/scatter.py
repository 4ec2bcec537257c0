"""Scatters: indices count from the end where negative, and never leave the data. TVM's own code checks none."""

from __future__ import annotations

from typing import Any

from tvm import relax

from redfuser.frontend.converters.common import Attributes, Converter, Inputs, extents_of
from redfuser.frontend.converters.gather import clipped


def convert_scatter_elements(stock: Converter) -> Converter:
    """ScatterElements: one index an update, along one axis."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Any:
        data, indices, updates = inputs
        return stock(
            bb, [data, clipped(bb, indices, [extents_of(data)[attributes.get("axis", 0)]]), updates], attributes
        )

    return convert


def convert_scatter_nd(stock: Converter) -> Converter:
    """ScatterND: index tuples in the last axis of the indices."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Any:
        data, indices, updates = inputs
        width = extents_of(indices)[-1]
        return stock(bb, [data, clipped(bb, indices, extents_of(data)[:width]), updates], attributes)

    return convert
