"""Several blocks share one row's axis: each folds its segment, a second phase merges the states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Expr, Tensor, axis, index, load, op, substitute
from redfuser.expr.binding import dims_in
from redfuser.extents import Dim, is_symbolic, size_of
from redfuser.indexing import linear
from redfuser.tile.ir import Derived, Phase, Schedule, Store, Tile, TileProgram
from redfuser.tile.strategies.common import bind, grid_of, stream_tile, write_outputs
from redfuser.tile.strategies.emitter import Emitter
from redfuser.tile.strategies.recurrence import States, rebased
from redfuser.tile.strategies.segments import Segments
from redfuser.tile.strategies.skipping.narrowing import plan_skipping

#: Option of a schedule: rows of a block that merges; by default as many as of one that folds.
MERGE_ROWS = "merge-rows"
#: Another: blocks that are wanted, where rows of open size decide on the call how many segments give as many.
BLOCKS = "blocks"


def build_multi_segment(cascade: Cascade, derivation: Derivation, schedule: Schedule) -> TileProgram:
    """Phase 0 folds every segment into its own state in memory, phase 1 merges and finishes.

    Outputs along the shared axis have a phase of their own: its blocks merge too, each for the segment that it writes.

    Raises:
        StrategyError: the schedule doesn't fit the outputs.
    """
    grid = grid_of(cascade, schedule, states=True)
    tile = stream_tile(cascade, schedule)
    derived = _count(cascade, schedule, grid)
    wanted = size_of(derived[0].dim) if derived else schedule.segments
    segments = Segments.cut(cascade.axis.extent, wanted, tile)
    workspaces = {
        component.tensor.name: Tensor(
            f"{component.tensor.name}.segments",
            (segments.axis.extent, *(a.extent for a in reduction.axes)),
            component.tensor.dtype,
        )
        for reduction, recurrence in zip(cascade.reductions, derivation.recurrences, strict=True)
        for component in recurrence.state
    }
    skipping = plan_skipping(cascade, derivation, schedule, grid)
    stream = skipping.narrow(segments.bounds(cascade.axis.extent), tile)
    return TileProgram(
        cascade.name,
        cascade.inputs,
        tuple(output.tensor for output in cascade.outputs),
        (*stream.workspaces, *workspaces.values()),
        (
            *stream.phases,
            _fold(cascade, derivation, (Tile(segments.axis, 1), *grid), tile, stream.bounds, workspaces),
            *_merges(cascade, derivation, grid, segments, workspaces, schedule),
        ),
        schedule,
        (*derived, *stream.derived),
    )


def _count(cascade: Cascade, schedule: Schedule, grid: Sequence[Tile]) -> tuple[Derived, ...]:
    """How many segments there are, where that is decided on the call: none, or one dimension."""
    wanted = dict(schedule.options).get(BLOCKS, 0)
    if not wanted or not any(is_symbolic(tile.axis.extent) for tile in grid):
        return ()
    taken = {dim.name for dim in dims_in(cascade)}
    name = next(n for n in ("segments", *(f"segments{k}" for k in range(len(taken)))) if n not in taken)
    tiles = (op("floordiv", index(tile.axis.extent + tile.size - 1), index(tile.size)) for tile in grid)
    rows = linear(reduce(lambda one, other: op("mul", one, other), tiles)).expr()
    most = op("min", op("floordiv", index(wanted), rows), index(schedule.segments))
    return (Derived(Dim(name, 1, schedule.segments), op("max", most, index(1))),)


def _fold(
    cascade: Cascade,
    derivation: Derivation,
    grid: tuple[Tile, ...],
    tile: int,
    bounds: tuple[Expr, Expr],
    workspaces: dict[str, Tensor],
) -> Phase:
    """Each segment's states, stored at the segment; the grid begins with the segments."""
    emitter = Emitter(cascade, grid)
    states = States(emitter, cascade, derivation)
    states.fold(tile, bounds)
    for name, workspace in workspaces.items():
        buffer = states.components[name]
        where = (grid[0].axis, *buffer.axes)
        emitter.emit(Store(workspace, where, where, buffer.value))
    return emitter.phase()


def _merge_grid(cascade: Cascade, grid: tuple[Tile, ...], schedule: Schedule) -> tuple[Tile, ...]:
    """The grid of the merge: rows are independent of each other, and so are blocks of fewer of them."""
    most = dict(schedule.options).get(MERGE_ROWS, 0)
    return tuple(Tile(t.axis, min(t.size, most)) if most and t.axis in cascade.rows else t for t in grid)


def _merges(
    cascade: Cascade,
    derivation: Derivation,
    grid: tuple[Tile, ...],
    segments: Segments,
    workspaces: dict[str, Tensor],
    schedule: Schedule,
) -> tuple[Phase, ...]:
    """One phase for outputs across the shared axis, one for those along it."""
    along = tuple(output for output in cascade.outputs if cascade.axis in output.axes)
    across = tuple(output for output in cascade.outputs if cascade.axis not in output.axes)
    phases = []
    if across:
        rows = _merge_grid(cascade, grid, schedule)
        phases.append(_merge(replace(cascade, outputs=across), derivation, rows, segments, workspaces))
    if along:
        parts = replace(segments, axis=axis("part", segments.axis.extent))
        blocks, bounds = (Tile(segments.axis, 1), *grid), segments.bounds(cascade.axis.extent)
        whole = replace(cascade, outputs=along)
        tile = stream_tile(cascade, schedule)
        phases.append(_merge(whole, derivation, blocks, parts, workspaces, tile, bounds))
    return tuple(phases)


def _merge(
    cascade: Cascade,
    derivation: Derivation,
    grid: tuple[Tile, ...],
    segments: Segments,
    workspaces: dict[str, Tensor],
    tile: int = 1,
    bounds: tuple[Expr, Expr] | None = None,
) -> Phase:
    """The recurrence once more, with segments for elements: each re-based from its own base points."""
    emitter = Emitter(cascade, grid)
    states = States(emitter, cascade, derivation)
    own: dict[str, Expr] = {}
    joint = dict(states.names)
    elements: dict[str, tuple[Expr, Axis]] = {}
    for reduction, recurrence in states.pairs:
        name = reduction.result.name
        for component in recurrence.state:
            own[component.tensor.name] = load(workspaces[component.tensor.name], segments.axis, *reduction.axes)
        own[name] = own[recurrence.state[0].tensor.name]
        if recurrence.base is not None:
            own[f"{name}.base"] = bind(recurrence.base, own)
        joint |= {f"{derived}.previous": value for derived, value in own.items()}
        for component in recurrence.state:
            element = rebased(component, recurrence, own, joint)
            elements[component.tensor.name] = _candidates(element, reduction, segments.axis)
    emitter.share([[element] for element, _ in elements.values()])
    states.accumulate(elements)
    write_outputs(emitter, cascade, states.results, tile, bounds)
    return emitter.phase()


def _candidates(element: Expr, reduction: Reduction, segments: Axis) -> tuple[Expr, Axis]:
    """What the merge folds, and over which axis: of lists, the places of all segments."""
    if reduction.rank is None:
        return element, segments
    count = reduction.rank.extent
    candidate = axis(f"{reduction.result.name}.candidate", segments.extent * count)
    segment, place = op("floordiv", candidate, index(count)), op("floormod", candidate, index(count))
    return substitute(element, {segments: segment, reduction.rank: place}), candidate
