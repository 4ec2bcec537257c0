"""How many rows a block holds whose work is to merge segments."""

from __future__ import annotations

from math import prod

from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.geometry import power_of_two
from redfuser.expr import Axis
from redfuser.tile.strategies.multi_segment import MERGE_ROWS

#: Elements that a block holds for each of its threads.
ELEMENTS = 16


def value_axes(cascade: Cascade) -> list[Axis]:
    """Axes that results have beside the rows."""
    return list(dict.fromkeys(a for r in cascade.reductions for a in r.axes if a not in cascade.rows))


def merge_options(cascade: Cascade, rows: int, threads: int) -> tuple[tuple[str, int], ...]:
    """As many rows for a block that merges as its threads hold in registers beside what they add, if those are fewer.

    Args:
        rows: of a block that folds.
        threads: of a block.
    """
    columns = power_of_two(prod(axis.extent for axis in value_axes(cascade)))
    merging = max(threads * ELEMENTS // columns, 1)
    return ((MERGE_ROWS, merging),) if merging < rows else ()
