"""Schedules for open sizes: for which sizes one is chosen, and what of it suits all others."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.binding import usual_sizes
from redfuser.cascade.model import Cascade
from redfuser.extents import dims_of, is_symbolic, most
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.multi_segment import MERGE_ROWS
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN


def sizes_to_suit(cascade: Cascade) -> dict[str, int]:
    """Sizes of open dimensions that schedules are chosen for: usual ones, the largest of the shared axis."""
    return usual_sizes(cascade) | {dim.name: dim.high for dim in dims_of([cascade.axis.extent])}


def suit(schedule: Schedule, cascade: Cascade, derivation: Derivation, target: GpuTarget) -> Schedule | None:
    """A schedule for some sizes, for all; None where it holds all of what is open.

    Segments stay where the rows are few whatever their number; where they may be many, merging would be work in vain.
    What a mask hides isn't skipped.

    Args:
        cascade: its dimensions open.
        derivation: its verdict.
    """
    options = dict(schedule.options)
    if SKIP_HIDDEN in options:
        return None
    if schedule.segments > 1 and most_blocks(cascade, schedule) >= target.multiprocessors:
        options.pop(MERGE_ROWS, None)
        schedule = replace(schedule, strategy="single-segment", segments=1)
    if is_symbolic(cascade.axis.extent):
        if schedule.strategy == "resident" and streams(cascade, derivation):
            return None
        if not target.has("tma"):
            # TileLang pipelines copies by cp.async further only in loops of a known length.
            options["stages"] = min(options["stages"], 1)
    return replace(schedule, options=tuple(options.items()))


def most_blocks(cascade: Cascade, schedule: Schedule) -> int:
    """Blocks that rows take at their largest sizes."""
    return prod(-(-most(row.extent) // schedule.tile(row)) for row in cascade.rows)
