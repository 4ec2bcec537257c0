"""Symbolic values at given sizes: what every stage's value becomes where the dimensions are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from redfuser.expr import Axis, Const, Expr, Load, Symbol, Tensor, transform
from redfuser.extents import Dim, Size, bind, dims_of

T = TypeVar("T")


def at_sizes(value: T, sizes: Mapping[str, int]) -> T:
    """A value made of dataclasses, tuples, mappings and expressions, with numbers for symbolic sizes.

    Args:
        sizes: of every dimension that occurs, by its name.
    """
    return cast(T, _bound(value, sizes))


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Size):
        return bind(cast(int, value), sizes)
    if isinstance(value, Expr):
        return transform(value, lambda node: _node(node, sizes))
    if isinstance(value, tuple):
        return tuple(_bound(item, sizes) for item in value)
    if isinstance(value, Mapping):
        return {_bound(key, sizes): _bound(item, sizes) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: _bound(getattr(value, field.name), sizes) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value


def _node(node: Expr, sizes: Mapping[str, int]) -> Expr:
    if isinstance(node, Symbol):
        return Const(node.dtype, bind(node.size, sizes))
    if isinstance(node, Axis):
        return Axis(node.dtype, node.name, bind(node.extent, sizes))
    if isinstance(node, Load):
        return Load(node.dtype, _tensor(node.tensor, sizes), node.indices)
    return node


def _tensor(tensor: Tensor, sizes: Mapping[str, int]) -> Tensor:
    return Tensor(tensor.name, tuple(bind(extent, sizes) for extent in tensor.shape), tensor.dtype)


#: Symbolic dimensions are taken to have this size where figures are to be given.
USUAL_SIZE = 128


def usual_sizes(value: object) -> dict[str, int]:
    """Sizes for which figures are given: :data:`USUAL_SIZE`, or the nearest in range."""
    return {dim.name: min(max(USUAL_SIZE, dim.low), dim.high) for dim in dims_in(value)}


def at_largest(value: T) -> T:
    """A value where every symbolic dimension has its greatest size."""
    dims = dims_in(value)
    return at_sizes(value, {dim.name: dim.high for dim in dims}) if dims else value


def dims_in(value: object) -> tuple[Dim, ...]:
    """The symbolic dimensions of a value, by name."""
    found: list[Any] = []
    pending: list[Any] = [value]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Size):
            found.append(item)
        elif isinstance(item, Expr):
            pending += item.children
            pending += [item.extent] if isinstance(item, Axis) else []
            pending += [item.size] if isinstance(item, Symbol) else []
            pending += item.tensor.shape if isinstance(item, Load) else ()
        elif isinstance(item, tuple | list):
            pending += item
        elif isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            pending += [getattr(item, field.name) for field in dataclasses.fields(item)]
    return dims_of(found)
