"""Which element-wise definitions of a lowered PrimFunc are computed where they are used, and which are kept. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from redfuser.cascade.graph import Definition
from redfuser.cascade.reading.tir import Fragment
from redfuser.expr import INDEX, Axis, Const, Expr, Load, Op, loads, substitute, transform, walk
from redfuser.expr.operators import UNARY
from redfuser.extents import most
from redfuser.indexing import simplify

#: Operators that are too dear to apply more often than needed.
DEAR = frozenset(UNARY) - {"abs", "floor", "ceil", "round", "trunc", "isnan", "isinf"} | {"div", "pow"}


def inline(fragment: Fragment) -> tuple[Definition, ...]:
    """The definitions that remain, in order: all reductions, all outputs, and what is better computed once."""
    outputs = set(fragment.parameters)
    users: dict[str, list[Definition]] = {}
    for definition in fragment.definitions:
        for node in {n.tensor.name: n for n in loads(definition.body)}.values():
            users.setdefault(node.tensor.name, []).append(definition)
    inlined: dict[str, Definition] = {}
    kept: list[Definition] = []
    for definition in fragment.definitions:
        definition = replace(definition, body=_expand(definition.body, inlined))
        name = definition.tensor.name
        is_output = definition.tensor in outputs
        if not is_output and not users.get(name):
            continue
        if is_output or definition.is_reduction or not _worthwhile(definition, users[name]):
            kept.append(definition)
        else:
            inlined[name] = definition
    return tuple(kept)


def _worthwhile(definition: Definition, users: list[Definition]) -> bool:
    """Whether repeating the work at every use costs less than storing the result."""
    if is_movement(definition.body):
        return True
    again = any(_points(user) > most(definition.tensor.size) for user in users)
    if any(user.is_reduction for user in users):
        return len(users) == 1 and not again and not _is_guarded(definition.body)
    if _is_padding(definition.body) and (again or _reads(definition, users) > 1):
        return False
    return not again or not any(isinstance(node, Op) and node.name in DEAR for node in walk(definition.body))


def is_movement(body: Expr) -> bool:
    """Whether an element is just an element of another tensor, perhaps of another type."""
    while isinstance(body, Op) and body.name == "cast":
        body = body.args[0]
    return isinstance(body, Load)


def _reads(definition: Definition, users: list[Definition]) -> int:
    """In how many places an element may be read."""
    return sum(node.tensor == definition.tensor for user in users for node in set(loads(user.body)))


def _is_padding(body: Expr) -> bool:
    """Whether elements are a constant outside of some indices: each reading would test them, element by element."""
    return _is_guarded(body) and isinstance(body, Op) and any(isinstance(part, Const) for part in body.args[1:])


def _points(definition: Definition) -> int:
    total = 1
    for axis in (*definition.axes, *definition.reduced):
        total *= most(axis.extent)
    return total


def _is_guarded(body: Expr) -> bool:
    """Whether there is padding: a load that is valid only where a condition on indices holds."""
    conditions = [node.args[0] for node in walk(body) if isinstance(node, Op) and node.name == "select"]
    return any(isinstance(part, Axis) for condition in conditions for part in walk(condition) if part.dtype == INDEX)


def _expand(body: Expr, inlined: Mapping[str, Definition]) -> Expr:
    def rule(node: Expr) -> Expr:
        if not isinstance(node, Load) or node.tensor.name not in inlined:
            return node
        definition = inlined[node.tensor.name]
        return substitute(definition.body, dict(zip(definition.axes, node.indices, strict=True)))

    return simplify(transform(body, rule))
