"""Schedules for open sizes: for which sizes one is chosen, and what of it suits all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.open_sizes import SHORT
from redfuser.codegen.gpu.merge_schedule import merge_options
from redfuser.expr.binding import usual_sizes
from redfuser.extents import dims_of, is_symbolic, least, most
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.multi_segment import BLOCKS, MERGE_ROWS
from redfuser.tile.strategies.skipping.hidden import find_hidden
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from redfuser.tile.strategies.skipping.worth import grows_with_rows, limited_rows
from redfuser.tile.untuned.shapes import has_products

#: Blocks wanted for each multiprocessor, and the shortest segment worth a block of its own.
PER_MULTIPROCESSOR, SHORTEST_SEGMENT = 2, 256


def sizes_to_suit(cascade: Cascade) -> dict[str, int]:
    """Sizes of open dimensions that schedules are chosen for: usual ones, the largest of the shared axis."""
    return usual_sizes(cascade) | {dim.name: dim.high for dim in dims_of([cascade.axis.extent])}


def suited(
    found: Iterable[Schedule], cascade: Cascade, derivation: Derivation, target: GpuTarget
) -> Iterator[Schedule]:
    """Schedules for some sizes, for all, without those that hold all of what is open.

    Segments stay where the rows are few whatever their number. Where they may be many or few, as in a decoder that
    takes its prompt and then word after word, the call decides; where they are few only while the axis is short,
    merging would be work in vain. What positions hide is skipped where rows and axis grow together.

    Args:
        cascade: its dimensions open.
        derivation: its verdict.
    """
    on_call, open_axis = _few_at_times(cascade), is_symbolic(cascade.axis.extent)
    looks = _worth_looking(cascade, derivation)
    chosen = (schedule for schedule in found if looks or SKIP_HIDDEN not in dict(schedule.options))
    whole = [s if not on_call and _surely_few(s, cascade, target) else _in_one(s) for s in chosen]
    fitting = [s for s in whole if not (open_axis and s.strategy == "resident" and streams(cascade, derivation))]
    if open_axis and not target.has("tma"):
        # TileLang pipelines copies by cp.async further only in loops of a known length.
        fitting = [_with(schedule, stages=min(dict(schedule.options)["stages"], 1)) for schedule in fitting]
    if on_call:
        yield from (cut for schedule in fitting for cut in _cut_on_the_call(schedule, cascade, target))
    yield from fitting


def _worth_looking(cascade: Cascade, derivation: Derivation) -> bool:
    """Whether positions hide something, and there are many rows wherever the axis is long, or the call decides.

    For few rows the kernel that looks at every element first would do as much as the one that computes.
    """
    hidden = find_hidden(cascade, derivation)
    return bool(hidden.limits) and (grows_with_rows(cascade) or limited_rows(cascade, hidden) is not None)


def _surely_few(schedule: Schedule, cascade: Cascade, target: GpuTarget) -> bool:
    """Whether even the largest rows leave multiprocessors without a block."""
    return _blocks(cascade, schedule, largest=True) < target.multiprocessors


def _in_one(schedule: Schedule) -> Schedule:
    """The schedule without segments."""
    if schedule.segments == 1:
        return schedule
    options = tuple((name, value) for name, value in schedule.options if name != MERGE_ROWS)
    return replace(schedule, strategy="single-segment", segments=1, options=options)


def _few_at_times(cascade: Cascade) -> bool:
    """Whether the rows are open, and may be few where the axis is long.

    Lists and what runs along the axis are left alone: merging them is dearer.
    """
    open_rows = any(is_symbolic(row.extent) for row in cascade.rows)
    own = set(dims_of([cascade.axis.extent])) - set(dims_of(row.extent for row in cascade.rows))
    along = any(cascade.axis in output.axes for output in cascade.outputs)
    return (
        open_rows
        and bool(own)
        and has_products(cascade)
        and not along
        and all(r.rank is None for r in cascade.reductions)
    )


def _cut_on_the_call(schedule: Schedule, cascade: Cascade, target: GpuTarget) -> Iterator[Schedule]:
    """The schedule in as many segments as the call's rows leave room for."""
    wanted = PER_MULTIPROCESSOR * target.multiprocessors
    blocks = _blocks(cascade, schedule, largest=False)
    segments = min(wanted // blocks, most(cascade.axis.extent) // SHORTEST_SEGMENT, SHORT)
    if schedule.strategy == "single-segment" and segments > 1 and not _shares_columns(schedule, cascade):
        rows = max(schedule.tile(row) for row in cascade.rows)
        merging = dict(merge_options(cascade, rows, dict(schedule.options)["threads"]))
        yield _with(replace(schedule, strategy="multi-segment", segments=segments), **{BLOCKS: wanted}, **merging)


def _shares_columns(schedule: Schedule, cascade: Cascade) -> bool:
    """Whether blocks share out what results have beside the rows."""
    return bool(dict(schedule.tiles).keys() - {axis.name for axis in (*cascade.rows, cascade.axis)})


def _blocks(cascade: Cascade, schedule: Schedule, largest: bool) -> int:
    """Blocks that rows take at their largest or their least sizes."""
    bound = most if largest else least
    return prod(-(-bound(row.extent) // schedule.tile(row)) for row in cascade.rows)


def _with(schedule: Schedule, **options: int) -> Schedule:
    return replace(schedule, options=tuple({**dict(schedule.options), **options}.items()))
