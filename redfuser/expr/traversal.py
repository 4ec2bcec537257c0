"""Ways through an expression: every part of it once, and parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from redfuser.expr.nodes import Axis, Expr, Load

E = TypeVar("E", bound=Expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression, children before parents."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, expanded = stack.pop()
        if node in seen:
            continue
        if expanded:
            seen.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def transform(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: ``rule`` sees each node after its children were rewritten."""
    memo: dict[Expr, Expr] = {}
    for node in walk(expr):
        children = tuple(memo[child] for child in node.children)
        rebuilt = node if all(a is b for a, b in zip(children, node.children, strict=True)) else node.rebuild(children)
        memo[node] = rule(rebuilt)
    return memo[expr]


def substitute(expr: Expr, replacements: Mapping[E, Expr]) -> Expr:
    """Replace whole sub-expressions (outermost first, never inside a replacement)."""
    if not replacements:
        return expr
    table: Mapping[Any, Expr] = replacements
    memo: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        if node in memo:
            return memo[node]
        if node in table:
            result = table[node]
        elif not node.children:
            result = node
        else:
            children = tuple(visit(child) for child in node.children)
            same = all(a is b for a, b in zip(children, node.children, strict=True))
            result = node if same else node.rebuild(children)
        memo[node] = result
        return result

    return visit(expr)


def loads(expr: Expr) -> tuple[Load, ...]:
    """The distinct loads in an expression, in order of first appearance."""
    return tuple(node for node in walk(expr) if isinstance(node, Load))


def axes_of(expr: Expr) -> frozenset[Axis]:
    """The axes an expression depends on."""
    return frozenset(node for node in walk(expr) if isinstance(node, Axis))
