"""Elementary functions on vectors: straight-line code, since a call would fall back to one element at a time.

float32 by polynomials of our own (fitted for the least largest error in ulp); infinities, NaN, zeros and
overflow behave as IEEE 754 asks; exponentials below the normal range are 0. Other
types go through float32 (float16) or the mathematical library (float64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import Builder, lanes_of, scalar_dtype
from redfuser.codegen.cpu.values.vectors import intrinsic, like, multiply_add, shuffle, typed

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

# Highest power first. Largest error against the function, in units of 2**-24: 0.05, 0.02, 0.02, 0.3, 0.05.
EXP = (0.0013814598365608254, 0.008368716898076022, 0.041668388051123786, 0.16666520631511864, 0.4999999344776761)
LOG = (
    *(0.06746638266490222, -0.11675651215205864, 0.11888162970469193, -0.12405589062754924, 0.14219552278769262),
    *(-0.16667995843347383, 0.2000211866290833, -0.25000009599638323, 0.33333312603992643),
)
TANH = (-0.0062742390957299015, 0.021071678695213772, -0.053852309803705124, 0.13332586137201363, -0.3333331755961975)
ERF_NEAR = (
    *(8.316775233111657e-05, -0.0008130012694502884, 0.005199906674178042, -0.026858941512918896),
    *(0.11283687188797352, -0.37612633188434336, 0.12837916657980972),
)
ERF_FAR = (
    *(-0.00021398502349360756, 0.0032149561565193068, -0.022889965775339433),
    *(0.10526184526071612, 0.6357183138690053, 0.12851436131241947),
)
#: ln 2 in two parts, so that small multiples of the first are exact
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
#: of the least normal float32
LEAST_EXPONENT = -126.0
#: Added to a number below 2**22, its nearest integer in the last bits of the sum.
ROUNDING = 1.5 * 2**23
#: The largest arguments whose exponentials are finite, and the largest float32.
MOST_EXP, MOST_EXP2, MOST = 88.72283172607422, 127.99999237060547, 3.4028234663852886e38


class Functions:
    """Writes elementary functions; every method takes a scalar or vector and gives one of the same type.

    Args:
        builder: where named intermediate values go.
        machine: decides between instructions.
    """

    def __init__(self, builder: Builder, machine: Machine) -> None:
        self.builder = builder
        self.machine = machine

    def apply(self, name: str, x: PrimExpr) -> PrimExpr:
        """The operator ``name`` of :data:`redfuser.expr.UNARY`."""
        from tvm import tirx

        if name in _SIMPLE:
            return getattr(tirx, _SIMPLE[name])(x)
        if name == "rsqrt":
            return like(1, x) / tirx.sqrt(x)
        dtype = scalar_dtype(x)
        if dtype in ("float16", "bfloat16"):
            return self.apply(name, x.astype(typed("float32", x))).astype(str(x.dtype))
        own: dict[str, Callable[[PrimExpr], PrimExpr]] = {
            "exp": self.exp,
            "exp2": self.exp2,
            "log": self.log,
            "log2": lambda x: self.log(x) * like(1 / math.log(2), x),
            "tanh": self.tanh,
            "erf": self.erf,
        }
        x = self.builder.bind("x", x)
        if name == "sigmoid":
            return like(1, x) / (like(1, x) + self.apply("exp", like(0, x) - x))
        if name in own and dtype == "float32":
            return own[name](x)
        return self._library(name, x)

    def _library(self, name: str, x: PrimExpr) -> PrimExpr:
        """A call of the mathematical library for each element."""
        from tvm.tirx import call_pure_extern

        dtype = scalar_dtype(x)
        symbol = _LIBRARY[name] + ("f" if dtype == "float32" else "")
        if lanes_of(x) == 1:
            return call_pure_extern(dtype, symbol, x)
        parts = [call_pure_extern(dtype, symbol, shuffle([x], [lane])) for lane in range(lanes_of(x))]
        return shuffle(parts, range(len(parts)))

    def _polynomial(self, x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
        value = like(coefficients[0], x)
        for coefficient in coefficients[1:]:
            value = multiply_add(value, x, like(coefficient, x))
        return value

    def exp(self, x: PrimExpr) -> PrimExpr:
        """``e**x`` for float32: ``2**n * e**r`` with ``r = x - n ln 2`` small. Below 1 ulp."""
        from tvm.tirx import nearbyint

        if not self.machine.scales:
            x = self.builder.bind("x", x)
            top = self._at_most(MOST_EXP, x)
            shifted, n = self._nearest(top, 1 / math.log(2))
            high = multiply_add(n, like(-LN2_HIGH, x), top)
            near = self._exp_near(multiply_add(n, like(-LN2_LOW, x), high))
            return self._ends(x, top, LEAST_EXPONENT * math.log(2), self._shifted(near, shifted))
        tiny, x = self._clamp(x, LEAST_EXPONENT * math.log(2), 100.0)
        n = self.builder.bind("n", nearbyint(x * like(1 / math.log(2), x)))
        high = multiply_add(n, like(-LN2_HIGH, x), x)
        return self._zero_if(tiny, self._scale(self._exp_near(multiply_add(n, like(-LN2_LOW, x), high)), n))

    def exp_below(self, x: PrimExpr) -> PrimExpr:
        """``e**x`` for float32 that is at most zero, or a NaN."""
        if self.machine.scales:
            return self.exp(self.builder.bind("x", x))
        from tvm.tirx import Select, reinterpret

        x = self.builder.bind("x", x)
        shifted, n = self._nearest(x, 1 / math.log(2), ROUNDING + 127)
        high = multiply_add(n, like(-LN2_HIGH, x), x)
        near = self._exp_near(multiply_add(n, like(-LN2_LOW, x), high))
        bits = reinterpret(typed("int32", x), shifted)
        power = reinterpret(str(x.dtype), bits << like(23, bits))
        return Select(x < like(LEAST_EXPONENT * math.log(2), x), like(0, x), near * power)

    def exp2(self, x: PrimExpr) -> PrimExpr:
        """``2**x`` for float32."""
        from tvm.tirx import nearbyint

        if not self.machine.scales:
            x = self.builder.bind("x", x)
            top = self._at_most(MOST_EXP2, x)
            shifted, n = self._nearest(top, 1.0)
            near = self._exp_near((top - n) * like(math.log(2), x))
            return self._ends(x, top, LEAST_EXPONENT, self._shifted(near, shifted))
        tiny, x = self._clamp(x, LEAST_EXPONENT, 140.0)
        n = self.builder.bind("n", nearbyint(x))
        return self._zero_if(tiny, self._scale(self._exp_near((x - n) * like(math.log(2), x)), n))

    def _clamp(self, x: PrimExpr, low: float, high: float) -> tuple[PrimExpr, PrimExpr]:
        """Whether ``x`` is too low, and ``x`` between the bounds; the order of the arguments lets a NaN through."""
        from tvm.tirx import Max, Min

        x = self.builder.bind("x", x)
        return x < like(low, x), self.builder.bind("x", Min(like(high, x), Max(like(low, x), x)))

    def _at_most(self, high: float, x: PrimExpr) -> PrimExpr:
        """The lesser of two; the order of the arguments lets a NaN through."""
        from tvm.tirx import Min

        return self.builder.bind("top", Min(like(high, x), x))

    def _nearest(self, x: PrimExpr, factor: float, rounding: float = ROUNDING) -> tuple[PrimExpr, PrimExpr]:
        """The integer nearest to ``x * factor``: in the last bits of a number, and as one.

        Where the processor has no instruction that scales by a power of two, this leaves out two conversions.
        """
        shifted = self.builder.bind("shifted", multiply_add(x, like(factor, x), like(rounding, x)))
        return shifted, self.builder.bind("n", shifted - like(rounding, x))

    @staticmethod
    def _shifted(value: PrimExpr, shifted: PrimExpr) -> PrimExpr:
        """``value * 2**n`` for the n in the last bits of ``shifted``; nonsense outside the normal range."""
        from tvm.tirx import reinterpret

        bits = typed("int32", value)
        power = reinterpret(bits, shifted)
        return reinterpret(str(value.dtype), reinterpret(bits, value) + (power << like(23, power)))

    def _ends(self, x: PrimExpr, top: PrimExpr, low: float, value: PrimExpr) -> PrimExpr:
        """An exponential that is right in the normal range, made right beyond it and for a NaN.

        Args:
            top: ``x``, but at most the largest argument with a finite result; the next number exceeds it by so much
                that this share of the largest number, added to the result, is infinity.
            low: the least argument.
        """
        from tvm.tirx import Select

        value = multiply_add(x - top, like(MOST, x), value)
        return Select(x < like(low, x), like(0, value), value)

    @staticmethod
    def _zero_if(tiny: PrimExpr, value: PrimExpr) -> PrimExpr:
        """Zero in place of what lies below the normal range.

        Processors take a hundred times as long to round such a result, and masked scores all end up there.
        """
        from tvm.tirx import Select

        return Select(tiny, like(0, value), value)

    def _exp_near(self, r: PrimExpr) -> PrimExpr:
        """``e**r`` for ``|r| <= ln(2) / 2``."""
        r = self.builder.bind("r", r)
        tail = self._polynomial(r, EXP)
        return multiply_add(multiply_add(tail, r, like(1, r)), r, like(1, r))

    def _scale(self, value: PrimExpr, n: PrimExpr) -> PrimExpr:
        """``value * 2**n`` with one rounding, or none; n may leave the exponent's range by as much again."""
        lanes = lanes_of(value)
        if self.machine.scales and lanes in (4, 8, 16):
            from tvm.tirx import const

            name = f"llvm.x86.avx512.mask.scalef.ps.{32 * lanes}"
            rounding = [const(4, "int32")] if lanes == 16 else []
            mask = const(-1, "int16" if lanes == 16 else "int8")
            return intrinsic(str(value.dtype), name, value, n, like(0, value), mask, *rounding)
        whole = self.builder.bind("whole", n.astype(typed("int32", value)))
        half = self.builder.bind("half", whole >> like(1, whole))
        return value * self._power(half) * self._power(whole - half)

    def _power(self, n: PrimExpr) -> PrimExpr:
        """``2**n`` for an integer inside float32's exponent range."""
        from tvm.tirx import reinterpret

        return reinterpret(typed("float32", n), (n + like(127, n)) << like(23, n))

    def log(self, x: PrimExpr) -> PrimExpr:
        """Natural logarithm for float32: ``e ln 2 + log(m)`` with m around 1."""
        from tvm.tirx import Select, reinterpret

        integer = typed("int32", x)
        tiny = x < like(2.0**-126, x)
        scaled = self.builder.bind("scaled", Select(tiny, x * like(2.0**23, x), x))
        bits = self.builder.bind("bits", reinterpret(integer, scaled))
        # The exponent relative to sqrt(1/2), so that the mantissa lies between sqrt(1/2) and sqrt(2).
        power = self.builder.bind("power", (bits - like(0x3F3504F3, bits)) >> like(23, bits))
        mantissa = reinterpret(str(x.dtype), bits - (power << like(23, bits)))
        f = self.builder.bind("f", mantissa - like(1, x))
        exponent = power.astype(str(x.dtype)) - Select(tiny, like(23, x), like(0, x))
        e = self.builder.bind("e", exponent)
        square = self.builder.bind("square", f * f)
        tail = multiply_add(self._polynomial(f, LOG), f * square, e * like(LN2_LOW, x))
        near = multiply_add(square, like(-0.5, x), tail) + f
        value = multiply_add(e, like(LN2_HIGH, x), near)
        value = Select(x < like(math.inf, x), value, x)  # infinity, NaN
        return Select(x > like(0, x), value, self._log_below(x))

    @staticmethod
    def _log_below(x: PrimExpr) -> PrimExpr:
        from tvm.tirx import Select, isnan

        undefined = Select(isnan(x), x, like(math.nan, x))
        return Select(x >= like(0, x), like(-math.inf, x), undefined)

    def tanh(self, x: PrimExpr) -> PrimExpr:
        """Hyperbolic tangent for float32: a polynomial near 0, the exponential elsewhere."""
        from tvm.tirx import Select
        from tvm.tirx import abs as absolute

        magnitude = self.builder.bind("magnitude", absolute(x))
        square = self.builder.bind("square", x * x)
        near = multiply_add(self._polynomial(square, TANH) * square, x, x)
        far = like(1, x) - like(2, x) / (self.exp(magnitude + magnitude) + like(1, x))
        return Select(magnitude < like(0.55, x), near, self._signed(far, x))

    def erf(self, x: PrimExpr) -> PrimExpr:
        """Error function for float32: a polynomial near 0, ``1 - exp(polynomial)`` elsewhere."""
        from tvm.tirx import Min, Select
        from tvm.tirx import abs as absolute

        magnitude = self.builder.bind("magnitude", Min(like(4, x), absolute(x)))
        square = self.builder.bind("square", x * x)
        near = multiply_add(self._polynomial(square, ERF_NEAR), x, x)
        far = multiply_add(self._polynomial(magnitude, ERF_FAR), magnitude, magnitude)
        far = like(1, x) - self.exp(like(0, x) - far)
        return Select(magnitude < like(0.92, x), near, self._signed(far, x))

    @staticmethod
    def _signed(magnitude: PrimExpr, x: PrimExpr) -> PrimExpr:
        """``magnitude`` with the sign of ``x``."""
        from tvm.tirx import Select

        return Select(x < like(0, x), like(0, x) - magnitude, magnitude)


#: operators that vector instructions or the code generator provide as they are
_SIMPLE = {
    "abs": "abs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "nearbyint",
    "isnan": "isnan",
}

_LIBRARY = {
    **{name: name for name in ("exp", "exp2", "log", "log2", "log1p", "tanh", "erf", "sin", "cos", "tan")},
    **{name: name for name in ("sinh", "cosh", "asin", "acos", "atan")},
}
