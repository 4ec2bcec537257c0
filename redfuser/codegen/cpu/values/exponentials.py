"""Exponentials on vectors: straight-line code, right to 1 ulp in the normal range, 0 below it.

``2**n * e**r`` with r small. Where an instruction scales by a power of two, n is a number; elsewhere it comes out of
the last bits of a sum and is added to the bits of the exponent. Where a register holds a table of sixteen powers
besides, n is a multiple of 1/16, and the rest is so small that half as long a polynomial does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import Builder, lanes_of
from redfuser.codegen.cpu.values.vectors import intrinsic, like, multiply_add, polynomial, shuffle, typed

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

# Highest power first. Largest error against the function, in units of 2**-24: 0.05.
EXP = (0.0013814598365608254, 0.008368716898076022, 0.041668388051123786, 0.16666520631511864, 0.4999999344776761)
# ``(2**f - 1) / f`` for ``|f| <= 1/32``, highest power first. Largest error of the power in units of 2**-24: 0.03.
POWER = (0.055502135306596756, 0.24023428559303284, 0.6931471824645996)
#: The powers of two between 1 and 2, by sixteenths.
SIXTEENTHS = tuple(2.0 ** (number / 16) for number in range(16))
#: 1 / ln 2 in two parts
LOG2_E_HIGH, LOG2_E_LOW = 1.4426950216293335, 1.925963033500801e-08
#: ln 2 in two parts, so that small multiples of the first are exact
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
#: of the least normal float32
LEAST_EXPONENT = -126.0
#: Added to a number below 2**22, its nearest integer in the last bits of the sum.
ROUNDING = 1.5 * 2**23
#: The same for the nearest sixteenth.
ROUNDING_SIXTEENTHS = ROUNDING / 16
#: The largest arguments whose exponentials are finite, and the largest float32.
MOST_EXP, MOST_EXP2, MOST = 88.72283172607422, 127.99999237060547, 3.4028234663852886e38


class Exponentials:
    """Writes exponentials of float32; every method takes a scalar or vector and gives one of the same type.

    Args:
        builder: where named intermediate values go.
        machine: decides between instructions.
    """

    def __init__(self, builder: Builder, machine: Machine) -> None:
        self.builder = builder
        self.machine = machine

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
        x = self.builder.bind("x", x)
        if self.machine.scales:
            return self._in_vectors(x)
        from tvm.tirx import Select, reinterpret

        shifted, n = self._nearest(x, 1 / math.log(2), ROUNDING + 127)
        high = multiply_add(n, like(-LN2_HIGH, x), x)
        near = self._exp_near(multiply_add(n, like(-LN2_LOW, x), high))
        bits = reinterpret(typed("int32", x), shifted)
        power = reinterpret(str(x.dtype), bits << like(23, bits))
        return Select(x < like(LEAST_EXPONENT * math.log(2), x), like(0, x), near * power)

    def _in_vectors(self, x: PrimExpr) -> PrimExpr:
        """``e**x`` for at most a full vector, in one: what lies beside full vectors is computed as what lies in them.

        Equal numbers must have equal exponentials, or they are no ties where the largest are selected.
        """
        lanes, full = lanes_of(x), len(SIXTEENTHS)
        if lanes == full:
            return self._by_sixteenths(x)
        wide = self.builder.bind("x", shuffle([x] * -(-full // lanes), range(full)))
        return shuffle([self._by_sixteenths(wide)], range(lanes))

    def _by_sixteenths(self, x: PrimExpr) -> PrimExpr:
        """The same for such a vector: ``2**n * (1 + f * polynomial(f))`` with n a multiple of 1/16.

        Scaling takes n rounded down, the last bits of the shifted number find the power for the rest of it. What comes
        of arguments far below the normal range, −∞ among them, isn't taken.
        """
        from tvm.tirx import Shuffle, const, reinterpret

        shifted, n = self._nearest(x, 1 / math.log(2), ROUNDING_SIXTEENTHS)
        high = multiply_add(x, like(LOG2_E_HIGH, x), like(-0.0, x) - n)
        f = self.builder.bind("f", multiply_add(x, like(LOG2_E_LOW, x), high))
        places = [const(place, "int32") for place in range(len(SIXTEENTHS))]
        table = Shuffle([const(power, "float32") for power in SIXTEENTHS], places)
        which = reinterpret(typed("int32", x), shifted)
        power = self.builder.bind("power", intrinsic(str(x.dtype), "llvm.x86.avx512.permvar.sf.512", table, which))
        near = multiply_add(polynomial(f, POWER) * f, power, power)
        return self._zero_if(x < like(LEAST_EXPONENT * math.log(2), x), self._scale(near, n))

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
        tail = polynomial(r, EXP)
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
