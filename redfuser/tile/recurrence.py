"""The incremental form as statements: states, corrections, base points, and the merge of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, loads, substitute
from redfuser.tile.common import bind, producer_maps
from redfuser.tile.emitter import Emitter
from redfuser.tile.ir import Buffer, Fill, Map
from redfuser.tile.monoid import apply, identity, join


class States:
    """Buffers of every reduction's state in one phase, filled with identities.

    Attributes:
        names: derived name -> expression over the buffers; a result's name stands for its value so far.
    """

    def __init__(self, emitter: Emitter, cascade: Cascade, derivation: Derivation) -> None:
        self.emitter = emitter
        self.cascade = cascade
        self.pairs = list(zip(cascade.reductions, derivation.recurrences, strict=True))
        self.names: dict[str, Expr] = {}
        self.components: dict[str, Buffer] = {}
        self.bases: dict[str, Buffer] = {}
        self.previous: dict[str, Buffer] = {}
        finishes = _names_used(r.finish for r in derivation.recurrences)
        corrections = _names_used(c for r in derivation.recurrences for s in r.state for c in s.correction if c)
        for reduction, recurrence in self.pairs:
            self._declare(reduction, recurrence, f"{reduction.result.name}.previous" in corrections)
            if f"{reduction.result.name}.base" in finishes:
                self._write_base(reduction, recurrence)

    def _declare(self, reduction: Reduction, recurrence: Recurrence, needs_previous: bool) -> None:
        name = reduction.result.name
        for component in recurrence.state:
            buffer = self.emitter.buffer(component.tensor.name, component.tensor.dtype, reduction.axes)
            self.emitter.emit(Fill(buffer, identity(component.combiner, component.tensor.dtype)))
            self.components[component.tensor.name] = buffer
            self.names[component.tensor.name] = buffer.value
        if recurrence.base is not None:
            self.bases[name] = self.emitter.buffer(f"{name}.base", reduction.result.dtype, reduction.axes)
            self.names[f"{name}.base"] = self.bases[name].value
        if needs_previous:
            self.previous[name] = self.emitter.buffer(f"{name}.previous", reduction.result.dtype, reduction.axes)
            self.names[f"{name}.previous"] = self.previous[name].value
        self.names[name] = bind(recurrence.finish, self.names)
        self.emitter.names[self.names[name]] = name

    def _write_base(self, reduction: Reduction, recurrence: Recurrence) -> None:
        if recurrence.base is not None:
            self.emitter.emit(Map(self.bases[reduction.result.name], bind(recurrence.base, self.names)))

    def fold(self, tile: int, bounds: tuple[Expr, Expr]) -> None:
        """Stream the shared axis between ``bounds`` into the states."""
        elements = {c.tensor.name: bind(c.element, self.names) for _, r in self.pairs for c in r.state}
        groups = [*producer_maps(self.cascade), *([element] for element in elements.values())]
        mutable = (self.components, self.bases, self.previous)
        changing = {buffer.tensor for buffers in mutable for buffer in buffers.values()}
        with self.emitter.stream(self.cascade.axis, tile, bounds, groups, changing):
            for name, buffer in self.previous.items():
                self.emitter.emit(Map(buffer, self.names[name]))
            self.accumulate(elements, self.cascade.axis, rebase=True)

    def accumulate(self, elements: Mapping[str, Expr], over: Axis, rebase: bool = False) -> None:
        """Fold one element for each component over the current tile of ``over``, reduction by reduction."""
        for reduction, recurrence in self.pairs:
            if rebase:
                self._rebase(recurrence)
            for component in recurrence.state:
                name = component.tensor.name
                self.emitter.accumulate(self.components[name], component.combiner, elements[name], over)
            self._write_base(reduction, recurrence)

    def _rebase(self, recurrence: Recurrence) -> None:
        """Correct a state from the previous base points to the present ones."""
        changed: dict[str, Expr] = {}
        for component in recurrence.state:
            value = rebased(component, recurrence, self.names, self._factor)
            if value != self.names[component.tensor.name]:
                changed[component.tensor.name] = value
        for name, value in _in_place(changed, self.names, self._copy):
            self.emitter.emit(Map(self.components[name], value))

    def _factor(self, correction: Expr) -> Expr:
        bound = bind(correction, self.names)
        return bound if isinstance(bound, Const | Load) else self.emitter.materialise(bound)

    def _copy(self, name: str) -> Expr:
        source = self.components[name]
        target = self.emitter.buffer(f"{name}.old", source.tensor.dtype, source.axes)
        self.emitter.emit(Map(target, source.value))
        return target.value


def rebased(
    component: Component, recurrence: Recurrence, names: Mapping[str, Expr], factor: Callable[[Expr], Expr]
) -> Expr:
    """One component taken to new base points: a row of the correction matrix times the state.

    Args:
        names: where the old state's components are.
        factor: a correction -> the expression to apply.
    """
    if not component.correction:
        return names[component.tensor.name]
    terms = [
        apply(recurrence.transform, names[other.tensor.name], factor(correction))
        for other, correction in zip(recurrence.state, component.correction, strict=True)
        if correction is not None
    ]
    return reduce(lambda left, right: join(component.combiner, left, right), terms)


def _in_place(
    changed: Mapping[str, Expr], names: Mapping[str, Expr], copy: Callable[[str], Expr]
) -> Iterator[tuple[str, Expr]]:
    """Order updates so that each reads old values only; ``copy`` saves one where they depend on each other in a ring."""
    pending = dict(changed)
    while pending:
        read_by_others = {n for n in pending for m, v in pending.items() if m != n and names[n] in loads(v)}
        free = [n for n in pending if n not in read_by_others]
        name = free[0] if free else next(iter(pending))
        value = pending.pop(name)
        if not free:
            saved = copy(name)
            pending = {n: substitute(v, {names[name]: saved}) for n, v in pending.items()}
        yield name, value


def _names_used(expressions: Iterable[Expr]) -> set[str]:
    return {node.tensor.name for expr in expressions for node in loads(expr)}
