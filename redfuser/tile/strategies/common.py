"""What the strategies share: grids, binding of derived names, outputs, and the refusal."""

from __future__ import annotations

from collections.abc import Mapping

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Expr, Load, index, taken_apart, transform
from redfuser.reason import Reason
from redfuser.tile.ir import Fill, Schedule, Tile
from redfuser.tile.monoid import identity
from redfuser.tile.strategies.emitter import Emitter, axis_order


class StrategyError(Exception):
    """A strategy can't carry this cascade with this schedule.

    Args:
        reason: the precondition that failed.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def streams(cascade: Cascade, derivation: Derivation) -> bool:
    """Whether the incremental form may be used: there is one, and at least one element for it to start from."""
    return derivation.incremental and cascade.axis.extent != 0


def grid_of(cascade: Cascade, schedule: Schedule, states: bool = False) -> tuple[Tile, ...]:
    """Tiles of the axes that everything stored has: one point of a row axis and all of another unless scheduled.

    A row axis that some stored tensor lacks stays whole inside the block, for no two blocks may write one element.

    Args:
        states: whether the reductions' states are stored too, and not the outputs alone.

    Raises:
        StrategyError: the schedule tiles an axis that something stored lacks.
    """
    stored = {output.tensor.name: output.axes for output in cascade.outputs}
    if states:
        stored |= {reduction.result.name: reduction.axes for reduction in cascade.reductions}
    grid = []
    for coordinate in axis_order(cascade):
        lacking = [name for name, axes in stored.items() if coordinate not in axes]
        row = coordinate in cascade.rows
        if coordinate == cascade.axis or len(lacking) == len(stored):
            continue
        size = schedule.tile(coordinate, 1 if row else coordinate.extent)
        size = 1 if size == 0 else size
        if not lacking and (row or size != coordinate.extent):
            grid.append(Tile(coordinate, size))
        elif lacking and not row and size != coordinate.extent:
            text = f"axis {coordinate.name} can't be tiled: {', '.join(lacking)} would be stored by several blocks"
            raise StrategyError(Reason("tiled-axis-not-stored", text, f"{coordinate.name}:{size}"))
    return tuple(grid)


def stream_tile(cascade: Cascade, schedule: Schedule) -> int:
    """Tile size along the shared axis; the whole axis unless scheduled."""
    size = schedule.tile(cascade.axis, cascade.axis.extent)
    return 1 if size == 0 else size


def bind(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """Replace loads of derived names (``r``, ``r.base``, ``r.0``…) by what stands for them."""

    def rule(node: Expr) -> Expr:
        return names.get(node.tensor.name, node) if isinstance(node, Load) else taken_apart(node)

    return transform(expr, rule)


def whole(axis: Axis) -> tuple[Expr, Expr]:
    """Bounds of a stream over all of an axis."""
    return index(0), index(axis.extent)


def producer_maps(cascade: Cascade) -> list[list[Expr]]:
    """The producers' maps as groups for sharing."""
    return [[producer.map] for producer in cascade.producers]


def write_epilogues(emitter: Emitter, cascade: Cascade, names: Mapping[str, Expr]) -> dict[str, Expr]:
    """Fold the places of the lists selected; gives ``names`` with the results."""
    known = dict(names)
    for item in cascade.epilogues:
        target = emitter.buffer(item.result.name, item.result.dtype, item.axes)
        emitter.emit(Fill(target, identity(item.combiner, item.result.dtype)))
        emitter.accumulate(target, item.combiner, bind(item.map, known), item.over)
        known[item.result.name] = target.value
    return known


def write_outputs(
    emitter: Emitter,
    cascade: Cascade,
    names: Mapping[str, Expr],
    tile: int,
    bounds: tuple[Expr, Expr] | None = None,
) -> None:
    """Store every output; those along the shared axis in a stream of their own.

    Args:
        names: name of a reduction's result -> its true value over buffers.
        tile: tile size of that stream.
        bounds: of that stream; the whole axis unless given.
    """
    names = write_epilogues(emitter, cascade, names)
    outputs = [(output, bind(output.value, names)) for output in cascade.outputs]
    across = [(output, value) for output, value in outputs if cascade.axis not in output.axes]
    along = [(output, value) for output, value in outputs if cascade.axis in output.axes]
    results = [[names[r.result.name]] for r in cascade.reductions if set(r.axes) <= set(cascade.rows)]
    emitter.share([*results, *([value] for _, value in outputs)])
    for output, value in across:
        emitter.store(output, value)
    if along:
        groups = [*producer_maps(cascade), *([value] for _, value in along)]
        with emitter.stream(cascade.axis, tile, bounds or whole(cascade.axis), groups, set()):
            for output, value in along:
                emitter.store(output, value)
