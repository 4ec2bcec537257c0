"""Expressions to TIR, for one point or one vector of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.access import Access
from redfuser.codegen.cpu.values.builder import Builder, arithmetic, lanes_of, scalar_dtype
from redfuser.codegen.cpu.values.choices import chosen_elements
from redfuser.codegen.cpu.values.functions import Functions
from redfuser.codegen.cpu.values.operations import constant, converted, one_integer_type, operator, saturated
from redfuser.codegen.cpu.values.pairs import make_pair, position_of_pair, value_of_pair
from redfuser.codegen.cpu.values.types import computed
from redfuser.codegen.cpu.values.uses import COMPLEMENT, takes_work, uses_of
from redfuser.codegen.cpu.values.vectors import intrinsic, level, like, multiply_add, shuffle, typed
from redfuser.codegen.refusal import Refused
from redfuser.expr import INDEX, Axis, Const, Expr, Load, Op, Tensor, axes_of, substitute
from redfuser.expr.operators import UNARY
from redfuser.expr.saturation import saturation
from redfuser.extents import least, most
from redfuser.indexing import Linear, linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

Visit = Callable[[Expr], "PrimExpr"]

#: Of float32.
_LEAST_NORMAL = 2.0**-126


class Translator:
    """Writes the value of an expression; what occurs in it several times is named and computed once.

    Scalars stay scalars until something wider is computed from them: a value that is the same in all lanes is
    computed once.

    Args:
        builder: where named values go.
        machine: decides between instructions.
        access: where values are read from.
        below: arguments of exponentials that are never positive.
        normal: buffers that hold no subnormal numbers.
    """

    def __init__(
        self,
        builder: Builder,
        machine: Machine,
        access: Access,
        below: frozenset[Expr] = frozenset(),
        normal: frozenset[Tensor] = frozenset(),
    ) -> None:
        self.below, self.normal = below, normal
        self.builder = builder
        self.access = access
        self.machine = machine
        self.functions = Functions(builder, machine)

    def value(self, expr: Expr, region: Region, known: Mapping[Expr, PrimExpr] | None = None) -> PrimExpr:
        """The value at a region of one point or vector.

        Args:
            known: values of sub-expressions that are at hand.

        Raises:
            Refused: an operator or type that has no code.
        """
        memo: dict[Expr, PrimExpr] = dict(known or {})
        uses = uses_of(expr)

        def visit(node: Expr) -> PrimExpr:
            if node not in memo:
                value = self._node(node, region, visit)
                memo[node] = self.builder.bind("shared", value) if uses[node] > 1 and takes_work(node) else value
            return memo[node]

        return visit(expr)

    def _node(self, node: Expr, region: Region, visit: Visit) -> PrimExpr:
        if isinstance(node, Const):
            return constant(node)
        if node.dtype == INDEX and arithmetic(node):
            position = self._position(node, region)
            if position is not None:
                return position
        if isinstance(node, Load):
            if node.tensor in self.access.layouts:
                return self.access.on_chip(node.tensor, region)
            return self.access.in_memory(node, region, self.value)
        if isinstance(node, Axis):
            raise AssertionError("a coordinate is always a linear form")
        assert isinstance(node, Op)
        if node.name == "not":
            return self._negated(node.args[0], visit)
        if node.name == "select" and (chosen := chosen_elements(node, region, self.access, self.value)) is not None:
            return chosen
        if node.name == "pow":
            return self._power(node, visit)
        if node.name == "div" and node.dtype == "float32" and axes_of(node.args[1]) < axes_of(node.args[0]):
            x, y = map(visit, node.args)
            return self._quotient(x, y, isinstance(node.args[1], Load) and node.args[1].tensor in self.normal)
        if held := saturation(node):
            return saturated(held, self.builder.bind("held", visit(held.value)), node.dtype)
        arguments = level(*map(visit, node.args))
        if node.name == "sub":
            arguments = tuple(rounded_product(*pair) for pair in zip(node.args, arguments, strict=True))
        if node.name == "exp" and node.dtype == "float32" and node.args[0] in self.below:
            return self.functions.exponentials.exp_below(*arguments)
        if node.name in UNARY:
            return self._unary(node.name, *arguments)
        if node.name == "cast":
            return converted(arguments[0], node.dtype)
        if node.name == "pair":
            return make_pair(self.builder, *arguments)
        if node.name == "value":
            return value_of_pair(self.builder, arguments[0], node.dtype)
        if node.name == "position":
            return position_of_pair(self.builder, arguments[0])
        return operator(node.name, *one_integer_type(arguments))

    def _position(self, node: Expr, region: Region) -> PrimExpr | None:
        """Index arithmetic as a number or ramp, in 32 bits where they hold it; ``None`` if uneven along the lanes."""
        from tvm.tirx import Broadcast, Ramp, const

        form = linear(substitute(node, region.points()))
        lane = region.lane
        if lane is not None and any(lane in axes_of(atom) and atom != lane for atom, _ in form.terms):
            return None
        low, high = linear(node).bounds()
        dtype = "int32" if max(abs(least(low)), abs(most(high))) < 1 << 31 else INDEX
        base = Linear(tuple(t for t in form.terms if t[0] != lane), form.constant)
        start = self.builder.index(base.expr()).astype(dtype)
        stride = next((c for atom, c in form.terms if atom == lane), 0)
        if lane is None or not stride:
            return start
        ramp = Ramp(const(0, dtype), const(stride, dtype), lane.extent)
        return Broadcast(start, lane.extent) + ramp

    def _unary(self, name: str, x: PrimExpr) -> PrimExpr:
        if name == "isinf":
            return self.functions.apply("abs", x) >= like(math.inf, x)
        return self.functions.apply(name, x)

    def _negated(self, condition: Expr, visit: Visit) -> PrimExpr:
        """``not condition``, pushed down to comparisons: the simplifier turns it into the complement, losing NaN."""
        from tvm.tirx import And, Or, Select

        if isinstance(condition, Op) and condition.name in COMPLEMENT:
            left, right = one_integer_type(level(*map(visit, condition.args)))
            holds = operator(COMPLEMENT[condition.name], left, right)
            for side in (left, right) if "float" in str(left.dtype) and condition.name != "ne" else ():
                holds = Or(holds, self.functions.apply("isnan", side))
            return holds
        if isinstance(condition, Op) and condition.name == "not":
            return visit(condition.args[0])
        if isinstance(condition, Op) and condition.name in ("and", "or"):
            sides = level(*(self._negated(argument, visit) for argument in condition.args))
            return (Or if condition.name == "and" else And)(*sides)
        value = visit(condition)
        byte = value.astype(typed("int8", value))
        return Select(value, like(0, byte), like(1, byte)) > like(0, byte)

    def _quotient(self, x: PrimExpr, y: PrimExpr, normal: bool) -> PrimExpr:
        """``x / y`` where many ``x`` share one ``y``: times its reciprocal, which is computed once, then corrected.

        The correction makes it the correctly rounded quotient (Markstein 1990). Where it has no value, the
        plain product is right: an infinity, a zero, or NaN.

        Args:
            normal: whether ``y`` is known not to be subnormal. The reciprocal of one that is may be infinite, so
                both are made larger first, which is exact.
        """
        from tvm.tirx import Select, isnan

        if lanes_of(x) == 1:
            return x / y
        x, y = self.builder.bind("x", x), self.builder.bind("y", y)
        if not normal:
            small = self.functions.apply("abs", y) < like(_LEAST_NORMAL, y)
            factor = self.builder.bind("factor", Select(small, like(2.0**64, y), like(1, y)))
            y = self.builder.bind("y", y * factor)
            x = self.builder.bind("x", operator("mul", *level(x, factor)))
        inverse = self.builder.bind("inverse", like(1, y) / y)
        x, y, inverse = level(x, y, inverse)
        estimate = self.builder.bind("estimate", x * inverse)
        rest = multiply_add(like(0, x) - estimate, y, x)
        corrected = self.builder.bind("corrected", multiply_add(rest, inverse, estimate))
        return Select(isnan(corrected), estimate, corrected)

    def _power(self, node: Op, visit: Visit) -> PrimExpr:
        """Small whole exponents are products, a half is a square root."""
        from tvm.tirx import Select, call_pure_extern, sqrt

        base = self.builder.bind("base", visit(node.args[0]))
        exponent = node.args[1].value if isinstance(node.args[1], Const) else None
        if exponent == 0.5 and "float" in node.dtype:
            return Select(base == like(-math.inf, base), like(math.inf, base), sqrt(base))
        if exponent in (1, 2, 3, 4) or (exponent in (-1, -2) and "float" in node.dtype):
            product = base
            for _ in range(abs(int(exponent)) - 1):
                product = product * base
            return like(1, base) / product if exponent < 0 else product
        if computed(node.dtype) not in ("float32", "float64"):
            raise Refused(
                "operator-without-code", f"pow of {node.dtype} by a power that is no small number", node.args[1]
            )
        base, power = level(base, visit(node.args[1]))
        symbol = "powf" if scalar_dtype(base) == "float32" else "pow"
        if lanes_of(base) == 1:
            return call_pure_extern(scalar_dtype(base), symbol, base, power)
        lanes = range(lanes_of(base))
        pairs = [(shuffle([base], [n]), shuffle([power], [n])) for n in lanes]
        return shuffle([call_pure_extern(scalar_dtype(base), symbol, *pair) for pair in pairs], lanes)


def rounded_product(node: Expr, value: PrimExpr) -> PrimExpr:
    """The value; a product in it is rounded before anything is subtracted.

    A fused multiply-add would compute ``x·a - max(x·a)`` with another product than the maximum was taken of: some
    would come out positive, and their exponentials above 1.
    """
    is_product = isinstance(node, Op) and node.name in ("mul", "pow") and "float" in str(value.dtype)
    return intrinsic(str(value.dtype), "llvm.arithmetic.fence", value) if is_product else value
