"""Cascades up to names: equal layers of a model are derived once.

Names are replaced in the order of first appearance. The replacement names hold a character that no safe
identifier has, so they can be found again in the text of a witness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from redfuser.algebra.derivation import Bound, Component, Derivation, Recurrence, Split
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Expr, Load, Tensor, loads, transform
from redfuser.reason import Reason

_MARK = re.compile(r"%[at]\d+")


@dataclass(frozen=True)
class Names:
    """A renaming: tensors and axes to their replacements."""

    tensors: dict[Tensor, Tensor]
    axes: dict[Axis, Axis]

    @property
    def inverse(self) -> Names:
        """The renaming back."""
        return Names({b: a for a, b in self.tensors.items()}, {b: a for a, b in self.axes.items()})

    def tensor(self, tensor: Tensor) -> Tensor:
        """The replacement of a tensor, or of one that belongs to it, such as ``r.base``."""
        if tensor in self.tensors:
            return self.tensors[tensor]
        owner, dot, suffix = tensor.name.partition(".")
        by_name = {old.name: new for old, new in self.tensors.items()}
        return Tensor(f"{by_name[owner].name}{dot}{suffix}", tensor.shape, tensor.dtype)

    def expr(self, expr: Expr) -> Expr:
        """``expr`` renamed."""

        def rule(node: Expr) -> Expr:
            if isinstance(node, Axis):
                return self.axes[node]
            return Load(node.dtype, self.tensor(node.tensor), node.indices) if isinstance(node, Load) else node

        return transform(expr, rule)

    def text(self, text: str) -> str:
        """``text`` with the replacement names of :func:`canonical` put back."""
        names = {old.name: new.name for table in (self.tensors, self.axes) for old, new in table.items()}
        return _MARK.sub(lambda match: names.get(match[0], match[0]), text)


def canonical(cascade: Cascade) -> tuple[Cascade, Names]:
    """``cascade`` without the names, outputs and node names the algebra doesn't look at, and the renaming used.

    Two cascades that differ in names only give equal values; the first is hashable and serves as the key.
    """
    axes: dict[Axis, None] = dict.fromkeys(cascade.rows)
    axes[cascade.axis] = None
    tensors: dict[Tensor, None] = {}
    for item in (*cascade.producers, *cascade.reductions):
        axes.update(dict.fromkeys((*item.axes, item.over)))
        tensors.update(dict.fromkeys(node.tensor for node in loads(item.map)))
        tensors[item.result] = None
    names = Names(
        {old: Tensor(f"%t{n}", old.shape, old.dtype) for n, old in enumerate(tensors)},
        {old: Axis(old.dtype, f"%a{n}", old.extent) for n, old in enumerate(axes)},
    )
    return _renamed(cascade, names, used=frozenset(tensors)), names


def _renamed(cascade: Cascade, names: Names, used: frozenset[Tensor]) -> Cascade:
    def reduction(item: Reduction) -> Reduction:
        axes = tuple(names.axes[a] for a in item.axes)
        rank = None if item.rank is None else names.axes[item.rank]
        over, element = names.axes[item.over], names.expr(item.map)
        return Reduction(names.tensor(item.result), item.combiner, axes, over, element, rank)

    outputs: tuple[Output, ...] = ()
    results = {item.result for item in (*cascade.producers, *cascade.reductions)}
    inputs = tuple(names.tensors[tensor] for tensor in names.tensors if tensor in used and tensor not in results)
    return Cascade(
        "",
        tuple(names.axes[a] for a in cascade.rows),
        names.axes[cascade.axis],
        inputs,
        tuple(map(reduction, cascade.producers)),
        tuple(map(reduction, cascade.reductions)),
        outputs,
    )


def renamed(derivation: Derivation, name: str, names: Names) -> Derivation:
    """``derivation`` for the cascade called ``name``, with every tensor and axis replaced."""

    def component(part: Component) -> Component:
        correction = tuple(None if factor is None else names.expr(factor) for factor in part.correction)
        return replace(part, tensor=names.tensor(part.tensor), element=names.expr(part.element), correction=correction)

    def split(item: Split) -> Split:
        return Split(
            tuple(map(names.expr, item.basis)),
            item.factor and names.expr(item.factor),
            tuple(tuple(map(names.expr, row)) for row in item.matrix),
        )

    def bound(item: Bound) -> Bound:
        return replace(item, result=names.text(item.result), element=names.expr(item.element))

    def recurrence(item: Recurrence) -> Recurrence:
        return replace(
            item,
            result=names.tensor(item.result),
            state=tuple(map(component, item.state)),
            base=None if item.base is None else names.expr(item.base),
            finish=names.expr(item.finish),
            split=item.split and split(item.split),
        )

    obstacle = derivation.obstacle
    return replace(
        derivation,
        cascade=name,
        recurrences=tuple(map(recurrence, derivation.recurrences)),
        proofs=tuple(replace(proof, claim=names.text(proof.claim)) for proof in derivation.proofs),
        bounds=tuple(map(bound, derivation.bounds)),
        obstacle=obstacle and Reason(obstacle.code, names.text(obstacle.text), names.text(obstacle.witness)),
    )
