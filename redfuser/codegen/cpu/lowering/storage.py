"""Where values lie: flat on-chip arrays with the lane axis innermost, and tensors in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis, Expr, index, op
from redfuser.extents import most
from redfuser.tile.ir import Buffer


@dataclass(frozen=True)
class Layout:
    """Strides of an on-chip buffer.

    Args:
        buffer: what is laid out.
        lane: the axis with stride 1; ``None`` where the buffer has one element or none to prefer.
        strides: of every axis, in elements.
        size: elements to allocate.
    """

    buffer: Buffer
    lane: Axis | None
    strides: Mapping[Axis, int]
    size: int

    def covers(self, coordinate: Axis) -> bool:
        """Whether all of an axis lies in the buffer, whatever tile of it is current."""
        return self.buffer.tensor.shape[self.buffer.axes.index(coordinate)] == coordinate.extent

    def offset(self, region: Region) -> Expr:
        """Position of the region's point."""
        position: Expr = index(0)
        for coordinate, stride in self.strides.items():
            where = region.point(coordinate) if self.covers(coordinate) else region.local(coordinate)
            position = op("add", position, op("mul", where, index(stride)))
        return position


def lane_axis(axes: Collection[Axis], sizes: Mapping[Axis, int], preferred: Axis | None) -> Axis | None:
    """The axis laid along lanes: the preferred one where it has more than one point, else the last that has."""
    wide = [a for a in axes if sizes[a] > 1]
    return preferred if preferred in wide else (wide[-1] if wide else None)


def lay_out(buffer: Buffer, preferred: Axis | None, machine: Machine) -> Layout:
    """Order the axes so that the lane axis is innermost; rows start at vector boundaries.

    Storage is static: what is whole along a symbolic axis gets room for the most points there can be.

    Args:
        preferred: the axis that the phase lays along lanes.
    """
    sizes = {a: most(n) for a, n in zip(buffer.axes, buffer.tensor.shape, strict=True)}
    lane = lane_axis(buffer.axes, sizes, preferred)
    strides: dict[Axis, int] = {}
    size = 1
    if lane is not None:
        strides[lane] = 1
        size = sizes[lane] if sizes[lane] < machine.lanes else -(-sizes[lane] // machine.lanes) * machine.lanes
    for coordinate in reversed(buffer.axes):
        if coordinate != lane:
            strides[coordinate] = size
            size *= sizes[coordinate]
    return Layout(buffer, lane, {a: strides[a] for a in buffer.axes}, size)
