"""An axis in segments, for blocks to share out."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.expr import Axis, Const, Expr, axis, index, op
from redfuser.extents import Extent, is_symbolic


@dataclass(frozen=True)
class Segments:
    """How the shared axis is cut: into pieces of equally many tiles, the last one shorter.

    Of an axis of known size none is empty; of an open one some are where it is short, and their states stay identities.

    Args:
        axis: numbers the pieces.
        tiles: of each piece.
        tile: points of a tile.
    """

    axis: Axis
    tiles: Expr
    tile: int

    @staticmethod
    def cut(extent: Extent, wanted: Extent, tile: int, name: str = "segment") -> Segments:
        """At most ``wanted`` segments; just so many where a size is open.

        Args:
            extent: of the axis that is cut.
            tile: its points that belong together.
            name: of the axis that numbers the segments.
        """
        if is_symbolic(extent) or is_symbolic(wanted):
            longest = wanted * tile
            return Segments(axis(name, wanted), op("floordiv", index(extent + longest - 1), index(longest)), tile)
        tiles = -(-extent // tile)
        own = max(-(-tiles // max(wanted, 1)), 1)
        return Segments(axis(name, max(-(-extent // (own * tile)), 1)), index(own), tile)

    def bounds(self, extent: Extent) -> tuple[Expr, Expr]:
        """First point of the current segment, and the point after its last."""
        end = index(extent)
        if isinstance(self.tiles, Const):
            length = index(int(self.tiles.value) * self.tile)
            start = op("mul", self.axis, length)
            return start, op("min", op("add", start, length), end)
        first, next_ = (
            op("mul", op("mul", n, self.tiles), index(self.tile)) for n in (self.axis, op("add", self.axis, index(1)))
        )
        return op("min", first, end), op("min", next_, end)
