"""Elementary functions on vectors: straight-line code, since a call would fall back to one element at a time.

float32 by polynomials of our own (fitted for the least largest error in ulp); infinities, NaN, zeros and
overflow behave as IEEE 754 asks; exponentials below the normal range are 0. Other
types go through float32 (float16) or the mathematical library (float64).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import Builder, lanes_of, scalar_dtype
from redfuser.codegen.cpu.values.exponentials import LN2_HIGH, LN2_LOW, Exponentials
from redfuser.codegen.cpu.values.vectors import like, multiply_add, polynomial, shuffle, typed

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

# Highest power first. Largest error against the function, in units of 2**-24: 0.02, 0.02, 0.3, 0.05.
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


class Functions:
    """Writes elementary functions; every method takes a scalar or vector and gives one of the same type.

    Args:
        builder: where named intermediate values go.
        machine: decides between instructions.
    """

    def __init__(self, builder: Builder, machine: Machine) -> None:
        self.builder = builder
        self.exponentials = Exponentials(builder, machine)

    def apply(self, name: str, x: PrimExpr) -> PrimExpr:
        """The operator ``name`` of :data:`redfuser.expr.operators.UNARY`."""
        from tvm import tirx

        if name in _SIMPLE:
            return getattr(tirx, _SIMPLE[name])(x)
        if name == "rsqrt":
            return like(1, x) / tirx.sqrt(x)
        dtype = scalar_dtype(x)
        if dtype in ("float16", "bfloat16"):
            return self.apply(name, x.astype(typed("float32", x))).astype(str(x.dtype))
        own: dict[str, Callable[[PrimExpr], PrimExpr]] = {
            "exp": self.exponentials.exp,
            "exp2": self.exponentials.exp2,
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
        tail = multiply_add(polynomial(f, LOG), f * square, e * like(LN2_LOW, x))
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
        near = multiply_add(polynomial(square, TANH) * square, x, x)
        far = like(1, x) - like(2, x) / (self.exponentials.exp(magnitude + magnitude) + like(1, x))
        return Select(magnitude < like(0.55, x), near, self._signed(far, x))

    def erf(self, x: PrimExpr) -> PrimExpr:
        """Error function for float32: a polynomial near 0, ``1 - exp(polynomial)`` elsewhere."""
        from tvm.tirx import Min, Select
        from tvm.tirx import abs as absolute

        magnitude = self.builder.bind("magnitude", Min(like(4, x), absolute(x)))
        square = self.builder.bind("square", x * x)
        near = multiply_add(polynomial(square, ERF_NEAR), x, x)
        far = multiply_add(polynomial(magnitude, ERF_FAR), magnitude, magnitude)
        far = like(1, x) - self.exponentials.exp(like(0, x) - far)
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
