"""Definitions that are computed together, row by row: intermediates of a row never leave the chip. No TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from redfuser.cascade.graph import Definition
from redfuser.codegen.cpu.remainder.pieces import pieces
from redfuser.expr import Axis, Expr, Load, Tensor, index, loads, op, substitute, walk
from redfuser.extents import most
from redfuser.indexing import linear

#: An intermediate of one row with more elements than this goes through memory.
MOST_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class Group:
    """Definitions over common axes.

    Args:
        rows: axes that every definition has and none folds: what is computed for different rows is independent.
        definitions: in order. Where one reads another's result, it reads it at its own axes.
        stored: results that are kept in memory.
        origin: first element computed of a single definition's tensor; empty where it is the tensor's first.
    """

    rows: tuple[Axis, ...]
    definitions: tuple[Definition, ...]
    stored: frozenset[Tensor]
    origin: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, rows first."""
        others = (a for d in self.definitions for a in (*d.axes, *d.reduced))
        return tuple(dict.fromkeys((*self.rows, *others)))

    def place(self, definition: Definition) -> tuple[Expr, ...]:
        """Where an element of a definition lies in its tensor."""
        if not self.origin:
            return definition.axes
        return tuple(op("add", axis, index(first)) for axis, first in zip(definition.axes, self.origin, strict=True))

    def __str__(self) -> str:
        rows = ", ".join(f"{a.name}<{a.extent}" for a in self.rows)
        return "\n".join([f"for {rows}:", *(f"  {definition}" for definition in self.definitions)])


def make_groups(definitions: Sequence[Definition], outputs: frozenset[Tensor]) -> tuple[Group, ...]:
    """One group of all definitions where that is possible, otherwise one for each or for each piece of it.

    Args:
        outputs: results wanted in memory whatever happens.
    """
    together = _unified(definitions)
    if together is not None and len(together) > 1:
        group = Group(_rows(together), together, outputs)
        if group.rows and all(_row_size(d, group) <= MOST_ELEMENTS for d in together if d.tensor not in outputs):
            return (group,)
    return tuple(
        Group(part.axes, (part,), frozenset({part.tensor}), origin)
        for definition in definitions
        for part, origin in pieces(definition)
    )


def _row_size(definition: Definition, group: Group) -> int:
    return prod(most(a.extent) for a in definition.axes if a not in group.rows)


def _rows(definitions: Sequence[Definition]) -> tuple[Axis, ...]:
    folded = {a for d in definitions for a in (*d.reduced, d.rank)}
    return tuple(a for a in definitions[-1].axes if all(a in d.axes for d in definitions) and a not in folded)


def _unified(definitions: Sequence[Definition]) -> tuple[Definition, ...] | None:
    """The definitions with axes renamed so that a result is read at the axes it was defined over; None if it isn't."""
    done: dict[str, Definition] = {}
    for number, definition in enumerate(definitions):
        fresh = {a: replace(a, name=f"{a.name}.{number}") for a in (*definition.axes, *definition.reduced)}
        names = _shared_names(definition, done)
        if names is None:
            return None
        renamed = {a: names.get(a, fresh[a]) for a in fresh}
        done[definition.tensor.name] = _rename(definition, renamed, done)
    return tuple(done.values())


def _shared_names(definition: Definition, done: Mapping[str, Definition]) -> dict[Axis, Axis] | None:
    """Axes of a definition that must be the same as axes of what it reads; None where that is contradictory."""
    names: dict[Axis, Axis] = {}
    own = (*definition.axes, *definition.reduced)
    for node in loads(definition.body):
        source = done.get(node.tensor.name)
        for where, defined in zip(node.indices, source.axes if source else (), strict=bool(source)):
            if defined.extent == 1:
                continue
            mine = linear(where).expr()
            if not isinstance(mine, Axis) or mine not in own or names.setdefault(mine, defined) != defined:
                return None
    return names if len(set(names.values())) == len(names) else None


def _rename(definition: Definition, names: Mapping[Axis, Axis], done: Mapping[str, Definition]) -> Definition:
    def own(node: Load) -> Expr:
        source = done.get(node.tensor.name)
        return replace(node, indices=source.axes) if source else node

    body = substitute(definition.body, names)
    body = substitute(body, {node: own(node) for node in walk(body) if isinstance(node, Load)})
    axes, reduced = (tuple(names[a] for a in each) for each in (definition.axes, definition.reduced))
    rank = None if definition.rank is None else names[definition.rank]
    return replace(definition, axes=axes, reduced=reduced, body=body, rank=rank)
