"""Where a statement runs: for every axis, which points of the current tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from redfuser.expr import Axis, Expr, axis, index, op


@dataclass(frozen=True)
class Span:
    """Consecutive points of one axis.

    Args:
        origin: coordinate of the tile's first point.
        offset: the span's first point, counted from there.
        width: number of points.
    """

    origin: Expr
    offset: Expr
    width: int

    def part(self, first: Expr, width: int) -> Span:
        """``width`` of its points, from the one numbered ``first``."""
        return replace(self, offset=op("add", self.offset, first), width=width)


@dataclass(frozen=True)
class Region:
    """A box of points; at most one axis lies along vector lanes.

    Args:
        spans: every axis that statements may use.
        lane: the coordinate inside a vector; its extent is the vector's width.
        vector: the axis whose span is the vector; its other coordinates are the span's offset.
    """

    spans: Mapping[Axis, Span]
    vector: Axis | None = None
    lane: Axis | None = None

    def width(self, coordinate: Axis) -> int:
        """Number of points along an axis."""
        return self.spans[coordinate].width

    def narrow(self, coordinate: Axis, first: Expr, width: int) -> Region:
        """Part of the box along one axis."""
        return replace(self, spans={**self.spans, coordinate: self.spans[coordinate].part(first, width)})

    def along(self, coordinate: Axis, first: Expr, width: int) -> Region:
        """A vector of ``width`` points along one axis; a single point stays a scalar."""
        part = self.narrow(coordinate, first, width)
        return replace(part, vector=coordinate, lane=axis("lane", width)) if width > 1 else part

    def element(self, number: int) -> Region:
        """One lane's point as a scalar region."""
        if self.vector is None:
            return self
        return replace(self, vector=None, lane=None).narrow(self.vector, index(number), 1)

    def local(self, coordinate: Axis) -> Expr:
        """Position inside the tile, as on-chip buffers count."""
        offset = self.spans[coordinate].offset
        return op("add", offset, self.lane) if coordinate == self.vector and self.lane is not None else offset

    def point(self, coordinate: Axis) -> Expr:
        """Position along the whole axis."""
        return op("add", self.spans[coordinate].origin, self.local(coordinate))

    def points(self) -> dict[Axis, Expr]:
        """Position along every axis."""
        return {coordinate: self.point(coordinate) for coordinate in self.spans}


def whole(coordinate: Axis) -> Span:
    """All of an axis."""
    return Span(index(0), index(0), coordinate.extent)
