"""Activations of the domain com.microsoft, and those that its products apply to their result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from redfuser.frontend.normalising.definition import Definition

#: What a QuickGelu that gives no factor multiplies its input with.
QUICK = 1.702

#: Activations of a fused product: how many numbers of its own each takes, with the names ONNX calls them by.
ACTIVATIONS = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}


def define_gelu(write: Definition) -> None:
    """``x/2 · (1 + erf(x/√2))``."""
    _erf_gelu(write, write.input(0))


def define_bias_gelu(write: Definition) -> None:
    """Gelu of input + bias."""
    _erf_gelu(write, write.add("Add", write.input(0), write.input(1)))


def _erf_gelu(write: Definition, x: str) -> None:
    kind = write.element_type(0)
    half, one, root = (write.number(value, kind) for value in (0.5, 1.0, math.sqrt(0.5)))
    factor = write.add("Add", write.add("Erf", write.add("Mul", x, root)), one)
    write.add("Mul", write.add("Mul", x, half), factor, out=write.output(0))


def define_fast_gelu(write: Definition) -> None:
    """``x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))`` of input and bias, if there is one."""
    kind = write.element_type(0)
    x = write.total(write.input(0), write.input(1))
    half, one, cubic, scale = (write.number(v, kind) for v in (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi)))
    cube = write.add("Mul", write.add("Mul", x, x), x)
    inner = write.add("Mul", scale, write.add("Add", x, write.add("Mul", cubic, cube)))
    write.add("Mul", write.add("Mul", x, half), write.add("Add", write.add("Tanh", inner), one), out=write.output(0))


def define_quick_gelu(write: Definition) -> None:
    """``x · σ(alpha·x)``; ONNX Runtime writes SiLU with alpha = 1."""
    x, alpha = write.input(0), write.attribute("alpha", QUICK)
    inner = x if alpha == 1 else write.add("Mul", x, write.number(alpha, write.element_type(0)))
    write.add("Mul", x, write.add("Sigmoid", inner), out=write.output(0))


def activate(write: Definition, value: str, numbers: Sequence[float], out: str) -> None:
    """The node's own activation of a value, by the name its attribute ``activation`` gives.

    Args:
        numbers: the activation's own, in the order of :data:`ACTIVATIONS`; none means ONNX's defaults.

    Raises:
        UnsupportedOperatorError: another activation, or too few numbers.
    """
    name = write.attribute("activation", b"").decode()
    if not name:
        write.add("Identity", value, out=out)
        return
    if name not in ACTIVATIONS:
        write.refuse(f"the activation {name}")
    names = ACTIVATIONS[name]
    if numbers and len(numbers) < len(names):
        write.refuse(f"{len(numbers)} numbers for the activation {name}, which takes {len(names)}")
    own = dict(zip(names, map(float, numbers), strict=False))
    if name == "Clip":
        bounds = [write.number(number, write.element_type(0)) for number in own.values()]
        write.add(name, value, *bounds, out=out)
    else:
        write.add(name, value, out=out, **own)
