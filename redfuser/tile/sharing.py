"""Which values are worth a buffer: those computed in several places, and dear ones that vary along few axes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from redfuser.expr import Axis, Const, Expr, Load, Op, axes_of

#: Operators that cost many times an addition.
EXPENSIVE = frozenset(
    {"div", "pow", "exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf"}
    | {"sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan"}
)


def values(expr: Expr) -> Iterator[Expr]:
    """Distinct sub-expressions, parents before children, without the index arithmetic of loads."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(operands(node))


def operands(node: Expr) -> tuple[Expr, ...]:
    """The values a node is computed from; a load's indices aren't values."""
    return () if isinstance(node, Load) else node.children


def computed(node: Expr) -> bool:
    """Whether a node takes arithmetic (more than loads, casts and a predicate) and may be kept in a buffer."""
    if not isinstance(node, Op) or node.dtype == "bool":
        return False
    return any(isinstance(n, Op) and n.name != "cast" for n in values(node))


def expensive(expr: Expr, along: Axis | None = None) -> bool:
    """Whether an expression contains an expensive operator, of a value that varies along ``along`` if that is given."""
    for node in values(expr):
        if isinstance(node, Op) and node.name in EXPENSIVE and not _small_power(node):
            dear = node.args[1:] if node.name == "div" and isinstance(node.args[1], Const) else node.args
            if along is None or any(along in axes_of(argument) for argument in dear):
                return True
    return False


def _small_power(node: Op) -> bool:
    """A power that is a few multiplications."""
    exponent = node.args[-1]
    return node.name == "pow" and isinstance(exponent, Const) and exponent.value in (0, 1, 2, 3, 4)


def shared_values(groups: Sequence[Collection[Expr]], eligible: Callable[[Expr], bool] = computed) -> frozenset[Expr]:
    """The largest eligible sub-expressions that occur in two or more groups.

    A value all of whose uses lie inside larger eligible values of the same groups isn't listed: keeping those
    is enough.
    """
    where: dict[Expr, set[int]] = {}
    parents: dict[Expr, set[Expr]] = {}
    roots: set[Expr] = set()
    for number, group in enumerate(groups):
        roots.update(group)
        for expr in group:
            for node in values(expr):
                where.setdefault(node, set()).add(number)
                for operand in operands(node):
                    parents.setdefault(operand, set()).add(node)

    def covered(node: Expr) -> bool:
        above = parents.get(node, set())
        return node not in roots and all(where[p] == where[node] and eligible(p) for p in above)

    return frozenset(n for n, groups_of in where.items() if len(groups_of) > 1 and eligible(n) and not covered(n))
