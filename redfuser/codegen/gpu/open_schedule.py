"""Schedules for open sizes: for which sizes one is chosen, and what of it suits all others."""

from __future__ import annotations

from dataclasses import replace

from redfuser.algebra.derivation import Derivation
from redfuser.binding import usual_sizes
from redfuser.cascade.model import Cascade
from redfuser.extents import dims_of, is_symbolic
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.multi_segment import MERGE_ROWS
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN


def sizes_to_suit(cascade: Cascade) -> dict[str, int]:
    """Sizes of open dimensions that schedules are chosen for: usual ones, the largest of the shared axis."""
    return usual_sizes(cascade) | {dim.name: dim.high for dim in dims_of([cascade.axis.extent])}


def suit(schedule: Schedule, cascade: Cascade, derivation: Derivation, target: GpuTarget) -> Schedule | None:
    """A schedule for some sizes, for all: in one segment; None where it holds all of what is open.

    What a mask hides isn't skipped: what a first kernel finds would be of open size.

    Args:
        cascade: its dimensions open.
        derivation: its verdict.
    """
    options = {name: value for name, value in schedule.options if name != MERGE_ROWS}
    if SKIP_HIDDEN in options:
        return None
    strategy = "single-segment" if schedule.strategy == "multi-segment" else schedule.strategy
    if is_symbolic(cascade.axis.extent):
        if strategy == "resident" and streams(cascade, derivation):
            return None
        if not target.has("tma"):
            # TileLang pipelines copies by cp.async further only in loops of a known length.
            options["stages"] = min(options["stages"], 1)
    return replace(schedule, strategy=strategy, segments=1, options=tuple(options.items()))
