"""Passes one after another over a row that stays on chip: no recurrence, true values of earlier reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import PAIR, Expr, Load, axes_of, loads
from redfuser.tile.ir import Buffer, Fill, Schedule, TileProgram
from redfuser.tile.monoid import identity
from redfuser.tile.sharing import computed, expensive, shared_values, values
from redfuser.tile.strategies.common import bind, grid_of, producer_maps, stream_tile, whole, write_epilogues
from redfuser.tile.strategies.emitter import Emitter


@dataclass
class Pass:
    """What one sweep over the axis computes: reductions of one level, and outputs that need no later ones."""

    reductions: list[Reduction] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)


def plan_passes(cascade: Cascade) -> list[Pass]:
    """Each reduction in the pass after those it depends on; outputs along the axis as early as they can be."""
    level: dict[Reduction, int] = {}
    for reduction in cascade.reductions:
        level[reduction] = 1 + max((level[other] for other in cascade.dependencies(reduction)), default=-1)
    by_result = {reduction.result: n for reduction, n in level.items()}

    def output_level(output: Output) -> int:
        return 1 + max((by_result[node.tensor] for node in loads(output.value) if node.tensor in by_result), default=-1)

    along = {id(o): output_level(o) for o in cascade.outputs if cascade.axis in o.axes}
    passes = [Pass() for _ in range(1 + max((*level.values(), *along.values()), default=-1))]
    for reduction, number in level.items():
        passes[number].reductions.append(reduction)
    for output in cascade.outputs:
        if id(output) in along:
            passes[along[id(output)]].outputs.append(output)
    return passes


def build_resident(cascade: Cascade, derivation: Derivation, schedule: Schedule) -> TileProgram:
    """One stream for each pass; dear values that a later pass needs again cover the whole axis on chip.

    Raises:
        StrategyError: the schedule doesn't fit the outputs.
    """
    passes = plan_passes(cascade)
    emitter = Emitter(cascade, grid_of(cascade, schedule))
    results = {
        reduction.result.name: emitter.buffer(reduction.result.name, reduction.result.dtype, reduction.axes)
        for reduction in cascade.reductions
    }
    names = {name: buffer.value for name, buffer in results.items()}
    groups = [[[bind(e, names)] for e in _expressions(item)] for item in passes]
    extrema = {bind(r.map, names) for r in cascade.reductions if r.combiner in ("max", "min") and r.map.dtype != PAIR}
    flat = [[expr for [expr] in group] for group in groups]
    emitter.keep = shared_values(flat, _worth_keeping(cascade, extrema))
    tile = stream_tile(cascade, schedule)
    for item, uses in zip(passes, groups, strict=True):
        _sweep(emitter, cascade, item, uses, results, names, tile)
    names = write_epilogues(emitter, cascade, names)
    emitter.share([[bind(o.value, names)] for o in cascade.outputs])
    for output in cascade.outputs:
        if cascade.axis not in output.axes:
            emitter.store(output, bind(output.value, names))
    outputs = tuple(output.tensor for output in cascade.outputs)
    return TileProgram(cascade.name, cascade.inputs, outputs, (), (emitter.phase(),), schedule)


def _expressions(item: Pass) -> list[Expr]:
    return [r.map for r in item.reductions] + [o.value for o in item.outputs]


def _sweep(
    emitter: Emitter,
    cascade: Cascade,
    item: Pass,
    uses: list[list[Expr]],
    results: dict[str, Buffer],
    names: dict[str, Expr],
    tile: int,
) -> None:
    for reduction in item.reductions:
        emitter.emit(Fill(results[reduction.result.name], identity(reduction.combiner, reduction.result.dtype)))
    changing = {results[reduction.result.name].tensor for reduction in item.reductions}
    groups = [*producer_maps(cascade), *uses]
    with emitter.stream(cascade.axis, tile, whole(cascade.axis), groups, changing):
        for reduction in item.reductions:
            target = results[reduction.result.name]
            element = bind(reduction.map, names)
            emitter.accumulate(target, reduction.combiner, element, cascade.axis, reduction.rank)
        for output in item.outputs:
            emitter.store(output, bind(output.value, names))


def _worth_keeping(cascade: Cascade, extrema: set[Expr]) -> Callable[[Expr], bool]:
    """Producers, expensive values, and what a maximum is taken of: its bits must be the same in later passes."""
    producers = {producer.result for producer in cascade.producers}

    def produced(node: Expr) -> bool:
        return isinstance(node, Load) and node.tensor in producers

    def eligible(node: Expr) -> bool:
        if cascade.axis not in axes_of(node):
            return False
        dear = expensive(node, cascade.axis) or any(produced(n) for n in values(node))
        return produced(node) or (computed(node) and (dear or node in extrema))

    return eligible
