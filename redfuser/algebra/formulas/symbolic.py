"""A reduction's map read as a formula.

The reading is coarse on purpose. Each largest sub-expression that only the element determines becomes
one opaque *element* symbol, each largest one that only earlier results determine becomes one *atom*,
and what neither determines is a *parameter*. Only the operators that mix elements with earlier results
are interpreted, so masks, casts, soft-caps and index arithmetic inside a score never reach SymPy.

Casts between float types are the identity of real arithmetic. The indicator ``[x = m]`` of a running maximum is read
as the limit of ``exp(K(x - m))`` for large K, which has its algebra: no x seen is above m, so it re-bases by
``[m = m']``. Rounding, other comparisons and other operators without algebraic laws stay uninterpreted functions:
nothing can be proved through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import sympy

from redfuser.algebra.formulas.assumptions import Sign
from redfuser.algebra.formulas.dependence import Kinds
from redfuser.algebra.formulas.specialise import is_constant
from redfuser.algebra.proofs.rounding import clipped, rounds
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, Load, Op, walk

#: a SymPy expression; SymPy carries no types
Formula: TypeAlias = Any
Symbol: TypeAlias = sympy.Symbol

_NAMED: dict[str, Callable[..., Formula]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "exp": sympy.exp,
    "exp2": lambda a: sympy.Integer(2) ** a,
    "log": sympy.log,
    "log2": lambda a: sympy.log(a) / sympy.log(2),
    "log1p": lambda a: sympy.log(1 + a),
    "sqrt": sympy.sqrt,
    "rsqrt": lambda a: 1 / sympy.sqrt(a),
    "abs": lambda a: sympy.Mul(*map(sympy.Abs, sympy.Mul.make_args(a))),
    **{name: getattr(sympy, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
#: ``exp(LIMIT·(a - b))`` stands for the truth value of ``a = b`` where a is never above b
LIMIT = sympy.Symbol("K", positive=True)
#: constants with a larger denominator are symbols: exact, but without long integers in every step
_SMALL = 1024


@dataclass
class Reading:
    """The formula of a map and what its symbols stand for.

    Args:
        formula: the map.
        elements: values that vary with the shared axis and don't depend on earlier results.
        atoms: values that earlier results determine.
        flags: the same for truth values, as 0 or 1; and conditions that clear whole rows.
        parameters: values that neither determines, among them constants.
        rounded: symbols inside a rounding or clip that was read as if it weren't there.
        integral: whether one of those roundings gives an integer, which can't be NaN.
    """

    formula: Formula = sympy.S.Zero
    elements: dict[sympy.Symbol, Expr] = field(default_factory=dict)
    atoms: dict[sympy.Symbol, Expr] = field(default_factory=dict)
    flags: dict[sympy.Symbol, Expr] = field(default_factory=dict)
    parameters: dict[sympy.Symbol, Expr] = field(default_factory=dict)
    rounded: set[sympy.Symbol] = field(default_factory=set)
    integral: bool = False

    @property
    def leaves(self) -> dict[sympy.Symbol, Expr]:
        """Every symbol and the expression it stands for."""
        return {**self.parameters, **self.elements, **self.atoms, **self.flags}

    def words(self, formula: Formula) -> str:
        """A part of the formula with every symbol written out."""
        return str(formula.xreplace({symbol: sympy.Symbol(str(expr)) for symbol, expr in self.leaves.items()}))

    def __str__(self) -> str:
        where = ", ".join(f"{symbol} = {expr}" for symbol, expr in self.leaves.items())
        return f"{self.formula}  where {where}" if where else str(self.formula)


def origin(atom: Symbol) -> Symbol:
    """The symbol for the base point that a correction starts from; the atom itself is where it leads."""
    return sympy.Symbol(f"{atom.name}_from", **atom.assumptions0)


def read(expr: Expr, cascade: Cascade, sign: Callable[[Expr], Sign], relaxed: bool = False) -> Reading:
    """Read a map as a formula.

    Args:
        expr: one element of a reduction of ``cascade``.
        cascade: whose results ``expr`` may load.
        sign: of the cascade's values.
        relaxed: read through roundings and clips (see :mod:`redfuser.algebra.proofs.rounding`).
    """
    return _Reader(expr, cascade, sign, relaxed).reading


class _Reader:
    def __init__(self, expr: Expr, cascade: Cascade, sign: Callable[[Expr], Sign], relaxed: bool) -> None:
        self.kinds = Kinds.of(expr, cascade.axis, frozenset(r.result for r in cascade.reductions))
        self.extrema = {(r.value, r.map): r.combiner for r in cascade.reductions if r.combiner in ("max", "min")}
        self.sign = sign
        self.relaxed = relaxed
        self.reading = Reading()
        self.symbols: dict[Expr, Formula] = {}
        # The map is defined only where its divisors aren't zero.
        self.divisors = {node.args[1] for node in walk(expr) if isinstance(node, Op) and node.name == "div"}
        self.reading.formula = self.visit(expr, additive=False)

    def visit(self, node: Expr, additive: bool) -> Formula:
        """The formula of ``node``; ``additive`` if it is a term of a sum that mixes elements and earlier results."""
        if self.kinds.mixed(node):
            assert isinstance(node, Op | Load)
            return self.operator(node) if isinstance(node, Op) else self.opaque("load", node)
        if node in self.kinds.varying:
            return self.symbol(node, self.reading.elements, "x")
        if node in self.kinds.depending:
            if additive and (terms := self.terms(node)) is not None:
                return terms
            is_flag = node.dtype == "bool"
            return self.symbol(node, self.reading.flags if is_flag else self.reading.atoms, "c" if is_flag else "d")
        exact = _small_constant(node)
        return self.symbol(node, self.reading.parameters, "k") if exact is None else exact

    def terms(self, node: Expr) -> Formula | None:
        """A sum by its terms, which may play different parts: of s - (m + log t), m is streamed and log t put off."""
        if not isinstance(node, Op):
            return None
        if node.name in ("add", "sub"):
            return _NAMED[node.name](*(self.visit(arg, True) for arg in node.args))
        if node.name == "mul":
            for factor, rest in (node.args, node.args[::-1]):
                constant = _small_constant(factor)
                terms = self.terms(rest) if constant is not None else None
                if terms is not None:
                    return sympy.expand_mul(constant * terms)
        return None

    def operator(self, node: Op) -> Formula:
        if self.relaxed and (rounds(node) or clipped(node) is not None):
            inner = self.visit(clipped(node) or node.args[0], False)
            self.reading.rounded |= inner.free_symbols
            self.reading.integral |= "int" in node.dtype
            return inner
        if node.name == "select":
            condition = self.condition(node)
            chosen, otherwise = (self.visit(arg, False) for arg in node.args[1:])
            return condition * chosen + (1 - condition) * otherwise
        args = [self.visit(arg, node.name in ("add", "sub")) for arg in node.args]
        if node.name == "eq" and (sides := self.extremum(*node.args)) is not None:
            return sympy.exp(LIMIT * (self.visit(sides[0], False) - self.visit(sides[1], False)))
        if node.name == "cast" and (self.relaxed or not _changes_value(node)):
            return args[0]
        if node.name == "sigmoid":
            return 1 / (1 + sympy.exp(-args[0]))
        if node.name in _NAMED:
            return _NAMED[node.name](*args)
        return sympy.Function(node.name, real=True)(*args)

    def condition(self, select: Op) -> Formula:
        """The condition of a choice; a flag too where it clears whole rows, whose earlier results may be 0 or NaN."""
        node = select.args[0]
        whole_rows = node not in self.kinds.varying and any(is_constant(arg, 0) for arg in select.args[1:])
        return self.symbol(node, self.reading.flags, "c") if whole_rows else self.visit(node, False)

    def extremum(self, left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
        """(lower, upper) if one side is the maximum or minimum of the other."""
        for bound, element in ((left, right), (right, left)):
            combiner = self.extrema.get((bound, element))
            if combiner is not None:
                return (element, bound) if combiner == "max" else (bound, element)
        return None

    def opaque(self, name: str, node: Expr) -> Formula:
        return sympy.Function(name, real=True)(*(self.visit(child, False) for child in node.children))

    def symbol(self, node: Expr, table: dict[sympy.Symbol, Expr], prefix: str) -> Formula:
        if node not in self.symbols:
            sign = self.sign(node)
            positive = sign.is_positive or (sign.is_nonnegative and node in self.divisors)
            facts = {"positive": True} if positive else {"nonnegative": True} if sign.is_nonnegative else {"real": True}
            symbol = sympy.Symbol(f"{prefix}{len(table)}", **facts)
            table[symbol] = node
            self.symbols[node] = symbol
        return self.symbols[node]


def _changes_value(node: Op) -> bool:
    return not (node.dtype in _FLOATS and node.args[0].dtype in _FLOATS | {"bool"})


def _small_constant(node: Expr) -> Formula | None:
    if not isinstance(node, Const) or isinstance(node.value, bool):
        return None
    value = float(node.value)
    if value - value != 0:
        return None
    exact = Fraction(value)
    return sympy.Rational(exact.numerator, exact.denominator) if exact.denominator <= _SMALL else None
