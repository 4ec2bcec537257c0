"""The incremental form as statements: states, corrections, base points, and the merge of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, loads, substitute
from redfuser.tile.ir import Buffer, Fill, Map
from redfuser.tile.monoid import apply, identity, join
from redfuser.tile.strategies.common import bind, producer_maps
from redfuser.tile.strategies.emitter import Emitter


class States:
    """Buffers of every reduction's state in one phase, filled with identities.

    Attributes:
        pairs: each reduction with its recurrence.
        components: component name -> its buffer.
        names: what derived names stand for while the axis is being folded; a result's own name is its running value.
        results: name of a result -> its true value once everything is folded.
    """

    def __init__(self, emitter: Emitter, cascade: Cascade, derivation: Derivation) -> None:
        self.emitter = emitter
        self.cascade = cascade
        self.pairs = list(zip(cascade.reductions, derivation.recurrences, strict=True))
        self.components: dict[str, Buffer] = {}
        self.bases: dict[str, Buffer] = {}
        self.previous: dict[str, Buffer] = {}
        self.names: dict[str, Expr] = {}
        self.results: dict[str, Expr] = {}
        corrections = _names_used(c for r in derivation.recurrences for s in r.state for c in s.correction if c)
        for reduction, recurrence in self.pairs:
            self._declare(reduction, recurrence)
        self._write_first_bases(corrections | _names_used(r.finish for r in derivation.recurrences))
        for name, value in list(self.names.items()):
            if f"{name}.previous" in corrections:
                assert isinstance(value, Load)
                axes = tuple(i for i in value.indices if isinstance(i, Axis))
                self.previous[name] = emitter.buffer(f"{name}.previous", value.dtype, axes)
                self.names[f"{name}.previous"] = self.previous[name].value

    def _declare(self, reduction: Reduction, recurrence: Recurrence) -> None:
        name = reduction.result.name
        for component in recurrence.state:
            buffer = self.emitter.buffer(component.tensor.name, component.tensor.dtype, reduction.axes)
            self.emitter.emit(Fill(buffer, identity(component.combiner, component.tensor.dtype)))
            self.components[component.tensor.name] = buffer
            self.names[component.tensor.name] = buffer.value
        self.names[name] = self.names[recurrence.state[0].tensor.name]
        if recurrence.base is not None:
            self.bases[name] = self.emitter.buffer(f"{name}.base", recurrence.base.dtype, reduction.axes)
            self.names[f"{name}.base"] = self.bases[name].value
        self.results[name] = bind(recurrence.finish, {**self.names, **self.results})
        self.emitter.names[self.results[name]] = name

    def _write_first_bases(self, used: set[str]) -> None:
        """Base points of what is still empty, where something reads them before the first tile or after none."""
        first = []
        for reduction, recurrence in reversed(self.pairs):
            name = f"{reduction.result.name}.base"
            if recurrence.base is not None and used & {name, f"{name}.previous"}:
                used |= _names_used([recurrence.base])
                first.append((reduction, recurrence))
        for reduction, recurrence in reversed(first):
            self._write_base(reduction, recurrence)

    def _write_base(self, reduction: Reduction, recurrence: Recurrence) -> None:
        if recurrence.base is not None:
            self.emitter.emit(Map(self.bases[reduction.result.name], bind(recurrence.base, self.names)))

    def fold(self, tile: int, bounds: tuple[Expr, Expr]) -> None:
        """Stream the shared axis between ``bounds`` into the states."""
        axis = self.cascade.axis
        elements = {c.tensor.name: (bind(c.element, self.names), axis) for _, r in self.pairs for c in r.state}
        groups = [*producer_maps(self.cascade), *([element] for element, _ in elements.values())]
        mutable = (self.components, self.bases, self.previous)
        changing = {buffer.tensor for buffers in mutable for buffer in buffers.values()}
        with self.emitter.stream(axis, tile, bounds, groups, changing):
            for name, buffer in self.previous.items():
                self.emitter.emit(Map(buffer, self.names[name]))
            self.accumulate(elements, rebase=True)

    def accumulate(self, elements: Mapping[str, tuple[Expr, Axis]], rebase: bool = False) -> None:
        """Fold one element for each component over the current tile of its axis, reduction by reduction."""
        for reduction, recurrence in self.pairs:
            if rebase:
                self._rebase(recurrence)
            for component in recurrence.state:
                name = component.tensor.name
                element, over = elements[name]
                self.emitter.accumulate(self.components[name], component.combiner, element, over, reduction.rank)
            self._write_base(reduction, recurrence)

    def _rebase(self, recurrence: Recurrence) -> None:
        """Correct a state from the previous base points to the present ones."""
        changed: dict[str, Expr] = {}
        for component in recurrence.state:
            value = rebased(component, recurrence, self.names, self.names, self._keep)
            if value != self.names[component.tensor.name]:
                changed[component.tensor.name] = value
        for name, value in _in_place(changed, self.names, self._copy):
            self.emitter.emit(Map(self.components[name], value))

    def _keep(self, factor: Expr) -> Expr:
        return factor if isinstance(factor, Const | Load) else self.emitter.materialise(factor)

    def _copy(self, name: str) -> Expr:
        source = self.components[name]
        target = self.emitter.buffer(f"{name}.old", source.tensor.dtype, source.axes)
        self.emitter.emit(Map(target, source.value))
        return target.value


def rebased(
    component: Component,
    recurrence: Recurrence,
    state: Mapping[str, Expr],
    names: Mapping[str, Expr],
    keep: Callable[[Expr], Expr] = lambda factor: factor,
) -> Expr:
    """One component taken to new base points: a row of the correction matrix times the state.

    Args:
        state: component name -> its old value.
        names: what the corrections' names stand for.
        keep: is given each factor, and gives what to read it from.
    """
    if not component.correction:
        return state[component.tensor.name]
    terms = [
        apply(recurrence.transform, state[other.tensor.name], keep(bind(correction, names)))
        for other, correction in zip(recurrence.state, component.correction, strict=True)
        if correction is not None
    ]
    return reduce(lambda left, right: join(component.combiner, left, right), terms)


def _in_place(
    changed: Mapping[str, Expr], names: Mapping[str, Expr], copy: Callable[[str], Expr]
) -> Iterator[tuple[str, Expr]]:
    """Order updates so that each reads old values only; ``copy`` saves one that a ring of them depends on."""
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
