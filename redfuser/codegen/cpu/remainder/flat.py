"""Expressions over flat memory: every tensor is addressed by one index, in row-major order. No TVM.

Axes that memory can't tell apart are merged into one, and axes of which only parts are used (``axis // a``,
``axis % b``) are split, until addresses are affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from redfuser.expr import INDEX, Axis, Const, Expr, Load, Tensor, axis, index, load, op, transform
from redfuser.indexing import Linear, compose, digits, linear, replace


def flat(tensor: Tensor) -> Tensor:
    """The same elements in one dimension."""
    return Tensor(tensor.name, (tensor.size,), tensor.dtype)


def address(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """Row-major place of an element, simplified."""
    total: Expr = index(0)
    for extent, where in zip(tensor.shape, indices, strict=True):
        total = op("add", op("mul", total, index(extent)), where)
    return linear(total).expr()


def flatten(expr: Expr) -> Expr:
    """The same value over flat tensors."""

    def rule(node: Expr) -> Expr:
        return load(flat(node.tensor), address(node.tensor, node.indices)) if isinstance(node, Load) else node

    return transform(expr, rule)


def stride(form: Linear, along: Expr) -> int:
    """How far an index moves with each step of an axis."""
    return dict(form.terms).get(along, 0)


@dataclass(frozen=True)
class Normal:
    """Axes split and merged so that the fewest are left.

    Args:
        axes: in the order of the original ones.
        exprs: over the new axes.
        parts: each original axis -> the axes that it went into; none for an axis of extent 1.
    """

    axes: tuple[Axis, ...]
    exprs: tuple[Expr, ...]
    parts: Mapping[Axis, tuple[Axis, ...]]

    def of(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """The new axes that stand for some of the original ones."""
        return tuple(dict.fromkeys(part for each in axes for part in self.parts[each]))


def normalise(axes: Sequence[Axis], exprs: Sequence[Expr]) -> Normal:
    """Split and merge axes until addresses are affine where possible.

    Args:
        axes: of one nest, outermost first; those of extent 1 vanish.
        exprs: all that depends on them, over flat tensors.
    """
    split = {each: digits(exprs, each) if each.extent not in (0, 1) else () for each in axes}
    exprs = tuple(replace(expr, {each: compose(parts) for each, parts in split.items()}) for expr in exprs)
    merged: list[Axis] = []
    became: dict[Axis, Axis] = {}
    for each in (part for parts in split.values() for part in parts):
        became[each] = each
        forms = [form for expr in exprs for form in index_forms(expr)]
        if merged and _alike(merged[-1], each, forms):
            outer = merged.pop()
            both = axis(f"{outer.name}_{each.name}", outer.extent * each.extent)
            exprs = tuple(replace(expr, {outer: index(0), each: both}) for expr in exprs)
            became = {old: both if new in (outer, each) else new for old, new in became.items()}
            each = both
        merged.append(each)
    parts = {old: tuple(dict.fromkeys(became[new] for new in news)) for old, news in split.items()}
    return Normal(tuple(merged), exprs, parts)


def index_forms(expr: Expr) -> Iterator[Linear]:
    """Linear form of every index an expression contains: addresses, operands of comparisons, coordinates as values."""
    if isinstance(expr, Const):
        return
    if expr.dtype != INDEX or isinstance(expr, Load):
        for child in expr.children:
            yield from index_forms(child)
        return
    form = linear(expr)
    yield form
    for atom, _ in form.terms:
        for child in atom.children:
            yield from index_forms(child)


def _alike(outer: Axis, inner: Axis, forms: Sequence[Linear]) -> bool:
    """Whether the axes only ever occur as ``outer * extent(inner) + inner``."""
    return all(stride(form, outer) == stride(form, inner) * inner.extent for form in forms)
