"""Remainders that TVM's analysis would get wrong, hidden from it. Imports TVM: import it lazily.

For ``(4·i + 3) mod 6`` TVM bounds the result by [3, 1] where it is 3 or 1 or 5: it adds the offset of a residue class
without reducing it. The empty range then proves anything, and digits of a flattened index vanish. A dividend that is
hidden behind a ``reinterpret`` of its own type has no residue class, and costs no instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import tvm
from tvm import tirx
from tvm.arith import Analyzer
from tvm.tirx import PrimExpr
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.stmt_functor import ir_transform, post_order_visit, substitute


def hide_dividends(module: tvm.IRModule) -> tvm.IRModule:
    """Every PrimFunc with those dividends hidden that TVM's analysis draws wrong conclusions from.

    Args:
        module: scheduled; loops that are marked for it may still have to be unrolled.
    """
    updated = {variable: _hidden(function) for variable, function in module.functions_items()}
    return tvm.IRModule(updated, attrs=module.attrs)


def _hidden(function: tvm.ir.BaseFunc) -> tvm.ir.BaseFunc:
    if not isinstance(function, tirx.PrimFunc):
        return function
    reading = _Reading()
    post_order_visit(function.body, reading.visit)
    return function.with_body(ir_transform(function.body, None, reading.hide, ["tirx.FloorMod"]))


@dataclass
class _Affine:
    """``offset + Σ coefficient·atom``, and how far unrolled loops may move the offset.

    Args:
        divisor: greatest common divisor of the coefficients; 0 without atoms.
        low: least offset.
        high: greatest offset.
    """

    divisor: int = 0
    low: int = 0
    high: int = 0

    def plus(self, other: _Affine, times: int) -> _Affine:
        """The sum with a multiple of another one."""
        ends = sorted((times * other.low, times * other.high))
        divisor = gcd(self.divisor, times * other.divisor)
        return _Affine(divisor, self.low + ends[0], self.high + ends[1])

    def misleads(self, modulus: int) -> bool:
        """Whether TVM bounds the remainder wrongly."""
        common = gcd(self.divisor, modulus)
        return self.divisor > 0 and common > 1 and not 0 <= self.low <= self.high < common


@dataclass
class _Reading:
    """What a function's variables stand for.

    Args:
        values: of variables that are bound to one: by ``let``, or as the iterators of a block.
        unrolled: extent of each loop that will be unrolled: its variable becomes part of the offset.
    """

    values: dict[tirx.Var, PrimExpr] = field(default_factory=dict)
    unrolled: dict[tirx.Var, int] = field(default_factory=dict)
    analyzer: Analyzer = field(default_factory=Analyzer)

    def visit(self, node: object) -> None:
        """Take in one node of the function."""
        if isinstance(node, tirx.Bind | tirx.Let):
            self.values[node.var] = node.value
        elif isinstance(node, tirx.SBlockRealize):
            self.values |= {v.var: value for v, value in zip(node.block.iter_vars, node.iter_values, strict=True)}
        elif isinstance(node, tirx.For):
            if node.kind == tirx.ForKind.UNROLLED and isinstance(node.extent, tirx.IntImm):
                self.unrolled[node.loop_var] = int(node.extent)
            self.analyzer.bind(node.loop_var, tvm.ir.Range.from_min_extent(node.min, node.extent), True)

    def hide(self, node: tirx.FloorMod) -> PrimExpr | None:
        """The remainder with its dividend hidden; None to keep it."""
        if not isinstance(node.b, tirx.IntImm) or "x" in str(node.dtype):
            return None
        dividend, modulus, divisors = node.a, int(node.b), []
        while isinstance(dividend, tirx.FloorDiv) and isinstance(dividend.b, tirx.IntImm):
            divisors.append(int(dividend.b))
            modulus *= divisors[-1]
            dividend = dividend.a
        if not self.affine(dividend).misleads(modulus):
            return None
        result = tirx.call_intrin(dividend.dtype, "tirx.reinterpret", dividend)
        # Its sign is hidden as well: without it, a floored division takes more instructions than a truncated one.
        positive = self.analyzer.const_int_bound(self._resolved(dividend)).min_value >= 0
        divide, remain = (tirx.truncdiv, tirx.truncmod) if positive else (tirx.floordiv, tirx.floormod)
        for divisor in reversed(divisors):
            result = divide(result, tirx.IntImm(dividend.dtype, divisor))
        return remain(result, node.b)

    def _resolved(self, expr: PrimExpr) -> PrimExpr:
        """The expression over loops alone."""
        while any(v in self.values for v in undefined_vars(expr)):
            expr = substitute(expr, self.values)
        return expr

    def affine(self, expr: PrimExpr) -> _Affine:
        """An index as far as it is affine; anything else is an atom."""
        if isinstance(expr, tirx.IntImm):
            return _Affine(0, int(expr), int(expr))
        if isinstance(expr, tirx.Add | tirx.Sub):
            return self.affine(expr.a).plus(self.affine(expr.b), 1 if isinstance(expr, tirx.Add) else -1)
        if isinstance(expr, tirx.Mul) and isinstance(expr.b, tirx.IntImm):
            return _Affine().plus(self.affine(expr.a), int(expr.b))
        if isinstance(expr, tirx.Mul) and isinstance(expr.a, tirx.IntImm):
            return _Affine().plus(self.affine(expr.b), int(expr.a))
        if isinstance(expr, tirx.Cast):
            return self.affine(expr.value)
        if isinstance(expr, tirx.Var) and expr in self.values:
            return self.affine(self.values[expr])
        if isinstance(expr, tirx.Var) and expr in self.unrolled:
            return _Affine(0, 0, self.unrolled[expr] - 1)
        return _Affine(1)
