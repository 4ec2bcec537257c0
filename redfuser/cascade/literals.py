"""Cascades that are equal but for some numbers get one form, of which these numbers are inputs. No TVM.

The layers of a quantised model differ in their scales and zero points, which reading writes into the expressions. Only
terms and factors become inputs: an exponent, a bound and a position say what is computed, not how much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from redfuser.cascade.canonical import Canonical
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import INDEX, Axis, Const, Expr, Load, Op, Tensor, load, walk

#: types of the numbers that may become inputs, each with its least normal number
_LEAST = {"float16": 2.0**-14, "float32": 2.0**-126, "float64": 2.0**-1022, "int32": 0}
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})

Merge = Callable[[tuple[Expr, ...]], Expr]


def lift(forms: Mapping[str, Canonical]) -> dict[str, Canonical]:
    """Common forms of cascades that are equal but for numbers.

    Args:
        forms: canonical form of each cascade, by its name.

    Returns:
        By the name of each cascade that differs so from another: the form they have in common. Numbers that they agree
        on stay in it. Each of the others is an input of one element; those that agree in every cascade are one input.
    """
    groups: dict[Cascade, list[Cascade]] = {}
    for cascade in dict.fromkeys(form.cascade for form in forms.values()):
        groups.setdefault(_outline(cascade), []).append(cascade)
    common: dict[Cascade, tuple[Cascade, tuple[Const, ...]]] = {}
    for members in groups.values():
        if len(members) > 1:
            unifier = _Unifier(len(members[0].inputs))
            cascade = unifier.cascade(tuple(members))
            numbers = zip(*unifier.inputs, strict=True)
            common |= {member: (cascade, literals) for member, literals in zip(members, numbers, strict=True)}
    return {name: _with(form, *common[form.cascade]) for name, form in forms.items() if form.cascade in common}


def literal_name(literal: Const) -> str:
    """What a number is called as an input; no value of a model, whose names are identifiers, is called so."""
    return f"{literal.dtype}({literal.value!r})"


def _with(form: Canonical, cascade: Cascade, literals: tuple[Const, ...]) -> Canonical:
    return Canonical(cascade, (*form.inputs, *map(literal_name, literals)), form.outputs, literals)


def _outline(cascade: Cascade) -> Cascade:
    """The cascade with a blank for every number that may become an input."""
    outlines: dict[Expr, Expr] = {}
    positional: set[Expr] = set()

    def outline(expr: Expr) -> Expr:
        for node in walk(expr):
            if isinstance(node, Axis) or (not isinstance(node, Load) and positional & {*node.children}):
                positional.add(node)
            # Positions, what is read at them, and conditions on them stay: by masks whole tiles are skipped.
            if isinstance(node, Load) or node.dtype == INDEX or (node.dtype == "bool" and node in positional):
                outlines[node] = node
            else:
                arithmetic = isinstance(node, Op) and node.name in _ARITHMETIC
                parts = (_blank(e.dtype) if arithmetic and _is_number(e) else outlines[e] for e in node.children)
                outlines[node] = node.rebuild(tuple(parts))
        return outlines[expr]

    return _merged((cascade,), lambda exprs: outline(exprs[0]))


def _blank(dtype: str) -> Expr:
    return load(Tensor("", (), dtype))


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.dtype in _LEAST and _LEAST[expr.dtype] <= abs(expr.value) < inf


class _Unifier:
    """Makes one of several cascades of equal outline.

    Args:
        known: inputs that they have.
    """

    def __init__(self, known: int) -> None:
        self.known = known
        #: the new inputs, and the number that each is in each cascade
        self.inputs: dict[tuple[Const, ...], Tensor] = {}
        self.merged: dict[tuple[Expr, ...], Expr] = {}

    def cascade(self, cascades: tuple[Cascade, ...]) -> Cascade:
        """What they have in common."""
        result = _merged(cascades, self._expr)
        made = tuple(self.inputs.values())
        return replace(result, inputs=(*result.inputs, *made), normal=(*result.normal, *made))

    def _expr(self, exprs: tuple[Expr, ...]) -> Expr:
        """What expressions of equal outline have in common, made of what their children have."""
        stack = [exprs]
        while stack:
            same = stack[-1]
            differ = any(expr != same[0] for expr in same)
            children = list(zip(*(expr.children for expr in same), strict=True)) if differ else []
            if waiting := [child for child in children if child not in self.merged]:
                stack += reversed(waiting)
                continue
            numbers = tuple(expr for expr in same if differ and isinstance(expr, Const))
            made = self._input(numbers) if numbers else same[0]
            self.merged[same] = made.rebuild(tuple(self.merged[child] for child in children)) if children else made
            stack.pop()
        return self.merged[exprs]

    def _input(self, numbers: tuple[Const, ...]) -> Expr:
        name = f"x{self.known + len(self.inputs)}"
        return load(self.inputs.setdefault(numbers, Tensor(name, (), numbers[0].dtype)))


def _merged(cascades: tuple[Cascade, ...], merge: Merge) -> Cascade:
    """The first cascade, with what is made of each of its expressions and the others in its place."""

    def reductions(*items: tuple[Reduction, ...]) -> tuple[Reduction, ...]:
        return tuple(replace(same[0], map=merge(tuple(r.map for r in same))) for same in zip(*items, strict=True))

    outputs = zip(*(c.outputs for c in cascades), strict=True)
    return replace(
        cascades[0],
        producers=reductions(*(c.producers for c in cascades)),
        reductions=reductions(*(c.reductions for c in cascades)),
        epilogues=reductions(*(c.epilogues for c in cascades)),
        outputs=tuple(replace(same[0], value=merge(tuple(o.value for o in same))) for same in outputs),
    )
