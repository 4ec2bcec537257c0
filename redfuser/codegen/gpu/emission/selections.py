"""Lists of the best pairs: a round for each place, which takes the extremum of what earlier rounds left.

No two pairs are equal, so that what a round takes is known again by its value.
"""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.expressions import constant
from redfuser.codegen.gpu.emission.geometry import Span
from redfuser.codegen.refusal import Refused
from redfuser.expr import INDEX
from redfuser.tile.ir import Reduce
from redfuser.tile.monoid import identity

#: The extremum of a tile, and of two pairs.
_EXTREMA = {"topk": ("T.reduce_max", "T.max"), "bottomk": ("T.reduce_min", "T.min")}


def write_selection(block: Block, statement: Reduce, candidates: str, first: bool) -> None:
    """``target = the best of target and candidates``, the best first.

    Args:
        candidates: a fragment of the tile's pairs, the axis selected from last; the rounds use it up.
        first: whether the list is empty so far.

    Raises:
        Refused: the tile has a single candidate.
    """
    assert statement.rank is not None
    rows, over = block.geometry.wide(statement.target.axes[:-1]), block.geometry.span(statement.over)
    if not over.wide:
        raise Refused("selection", "a list is selected from tiles of several candidates", statement)
    reduction, _ = _EXTREMA[statement.combiner]
    name = statement.target.tensor.name
    best = block.declare(f"{name}_best", "fragment", [span.extent for span in rows], INDEX)
    taken = f"{best}[{block.variables(rows)}]"
    place = block.variable(statement.rank)
    merge = None if first else _Merge(block, statement, rows, taken)
    with block.lines.indented(f"for {place} in T.serial({statement.rank.extent}):"):
        block.lines.add(f"{reduction}({candidates}, {best}, dim={len(rows)})")
        if merge is not None:
            merge.write_round(place)
        else:
            block.parallel(rows, f"{_entry(block, block.stored(statement.target).name, rows, place)} = {taken}")
        candidate = f"{candidates}[{block.variables((*rows, over))}]"
        nothing = constant(identity(statement.combiner, INDEX), INDEX)
        block.parallel((*rows, over), f"{candidate} = T.if_then_else({candidate} == {taken}, {nothing}, {candidate})")
    if merge is not None:
        block.lines.add(f"T.copy({merge.merged}, {block.stored(statement.target).name})")


class _Merge:
    """Merges with a list that isn't empty: a round takes its head where that is better than the tile's best.

    Args:
        rows: spans of the lists' axes.
        taken: text of what a round takes, the tile's best before the merge.
    """

    def __init__(self, block: Block, statement: Reduce, rows: Sequence[Span], taken: str) -> None:
        self.block, self.rows, self.taken = block, rows, taken
        _, self.better = _EXTREMA[statement.combiner]
        kept, name = block.stored(statement.target), statement.target.tensor.name
        shape = [block.geometry.span(axis).extent for axis in kept.axes]
        self.merged = block.declare(f"{name}_merged", "shared", shape, INDEX)
        heads = block.declare(f"{name}_head", "fragment", [span.extent for span in rows], "int32")
        self.position = f"{heads}[{block.variables(rows)}]"
        self.head = _entry(block, kept.name, rows, self.position)
        block.lines.add(f"T.fill({heads}, 0)")

    def write_round(self, place: str) -> None:
        """Take the better one, and move on in the list that it is from."""
        block, taken, position = self.block, self.taken, self.position
        block.parallel(self.rows, f"{taken} = {self.better}({taken}, {self.head})")
        block.parallel(self.rows, f"{_entry(block, self.merged, self.rows, place)} = {taken}")
        block.parallel(self.rows, f"{position} = {position} + T.if_then_else({taken} == {self.head}, 1, 0)")


def _entry(block: Block, lists: str, rows: Sequence[Span], place: str) -> str:
    """Text of a place of the current row's list."""
    return f"{lists}[{', '.join([*(block.variable(span.axis) for span in rows), place])}]"
