"""How far apart two neighbouring points of an axis lie in storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, axis, index, op, substitute
from redfuser.extents import most
from redfuser.indexing import linear
from redfuser.tile.sharing import values

#: Stride of a load that isn't affine along an axis.
IRREGULAR = -1


@dataclass(frozen=True)
class Strides:
    """Strides of loads along the axes of a tile.

    Args:
        layouts: of the on-chip buffers; other tensors are row-major in memory.
        sizes: points of each axis in the tile.
    """

    layouts: Mapping[Tensor, Layout]
    sizes: Mapping[Axis, int]

    def of_load(self, node: Load, along: Axis) -> int:
        """Elements between neighbours along an axis; 0 where the load doesn't vary, :data:`IRREGULAR` if uneven."""
        if node.tensor in self.layouts:
            return self.layouts[node.tensor].strides.get(along, 0)
        return self.of_position(node.tensor.shape, node.indices, along)

    def of_position(self, shape: tuple[int, ...], indices: tuple[Expr, ...], along: Axis) -> int:
        """The same for a position in memory."""
        size = self.sizes[along]
        local = axis("local", min(size, 64))
        # Tiles start at multiples of their size, and are walked in aligned parts of 64 points.
        tile = op("mul", axis("tile", max(most(along.extent) // size, 1)), index(size))
        part = op("mul", axis("part", -(-size // 64)), index(64))
        point = op("add", op("add", tile, part), local)
        stride = 0
        for dimension, position in enumerate(indices):
            if along not in axes_of(position):
                continue
            for atom, coefficient in linear(substitute(position, {along: point})).terms:
                if local in axes_of(atom):
                    if atom != local:
                        return IRREGULAR
                    stride += coefficient * prod(shape[dimension + 1 :])
        return stride

    def smooth(self, value: Expr, along: Axis) -> bool:
        """Whether every load in a value is constant or consecutive along an axis."""
        return all(self.of_load(node, along) in (0, 1) for node in value_loads(value))


def value_loads(value: Expr) -> list[Load]:
    """The loads a value is computed from; those inside indices aren't."""
    return [node for node in values(value) if isinstance(node, Load)]
