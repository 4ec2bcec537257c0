"""The paper's other workloads and their relatives, each as a graph of its own, some in several spellings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto, TensorProto

from .builder import Builder


def softmax(rows: int = 8, width: int = 64, spelling: str = "operator") -> ModelProto:
    """Softmax of ``x`` [rows, width]: the operator, or ``handwritten``."""
    build = Builder(f"softmax_{spelling}")
    x = build.input("x", (rows, width))
    if spelling == "operator":
        result = build.node("Softmax", x, axis=-1)
    else:
        numerator = build.node("Exp", build.node("Sub", x, _reduced(build, "ReduceMax", x)))
        result = build.node("Div", numerator, _reduced(build, "ReduceSum", numerator))
    build.output(result, (rows, width))
    return build.model()


def logsumexp(rows: int = 8, width: int = 64, spelling: str = "operator") -> ModelProto:
    """``log Σ exp x``: the operator, or ``shifted`` by the maximum."""
    build = Builder(f"logsumexp_{spelling}")
    x = build.input("x", (rows, width))
    if spelling == "operator":
        result = _reduced(build, "ReduceLogSumExp", x)
    else:
        top = _reduced(build, "ReduceMax", x)
        total = _reduced(build, "ReduceSum", build.node("Exp", build.node("Sub", x, top)))
        result = build.node("Add", build.node("Log", total), top)
    build.output(result, (rows, 1))
    return build.model()


def layer_norm(rows: int = 8, width: int = 64, spelling: str = "operator") -> ModelProto:
    """Layer norm: the operator, ``spelled`` out in two passes, or from ``moments`` E[x²]−E[x]²."""
    build = Builder(f"layer_norm_{spelling}")
    x, scale, bias = build.input("x", (rows, width)), build.input("scale", (width,)), build.input("bias", (width,))
    if spelling == "operator":
        result = build.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
    else:
        mean = _reduced(build, "ReduceMean", x)
        centred = build.node("Sub", x, mean)
        spread = _moments(build, x, mean) if spelling == "moments" else _mean_square(build, centred)
        deviation = build.node("Sqrt", build.node("Add", spread, build.constant(1e-5, "float32")))
        normalised = build.node("Div", centred, deviation)
        result = build.node("Add", build.node("Mul", normalised, scale), bias)
    build.output(result, (rows, width))
    return build.model()


def rms_norm(rows: int = 8, width: int = 64, spelling: str = "reciprocal") -> ModelProto:
    """RMS norm: ``x·reciprocal(√…)·scale``, or ``divided``, or the ``operator`` of opset 23."""
    build = Builder(f"rms_norm_{spelling}", opset=23 if spelling == "operator" else 18)
    x, scale = build.input("x", (rows, width)), build.input("scale", (width,))
    if spelling == "operator":
        result = build.node("RMSNormalization", x, scale, axis=-1, epsilon=1e-5)
    else:
        root = build.node("Sqrt", build.node("Add", _mean_square(build, x), build.constant(1e-5, "float32")))
        if spelling == "divided":
            normalised = build.node("Div", x, root)
        else:
            normalised = build.node("Mul", x, build.node("Reciprocal", root))
        result = build.node("Mul", normalised, scale)
    build.output(result, (rows, width))
    return build.model()


def variance(rows: int = 8, width: int = 64, spelling: str = "two_pass") -> ModelProto:
    """Variance of each row: ``two_pass``, or from ``moments``."""
    build = Builder(f"variance_{spelling}")
    x = build.input("x", (rows, width))
    mean = _reduced(build, "ReduceMean", x)
    result = _moments(build, x, mean) if spelling == "moments" else _mean_square(build, build.node("Sub", x, mean))
    build.output(result, (rows, 1))
    return build.model()


def inertia(rows: int = 8, width: int = 64) -> ModelProto:
    """Planar moment of inertia of each row's point masses about their centre: inputs ``mass``, ``x``, ``y``."""
    build = Builder("inertia")
    mass, x, y = (build.input(name, (rows, width)) for name in ("mass", "x", "y"))
    total = _reduced(build, "ReduceSum", mass)
    squares = []
    for place in (x, y):
        centre = build.node("Div", _reduced(build, "ReduceSum", build.node("Mul", mass, place)), total)
        apart = build.node("Sub", place, centre)
        squares.append(build.node("Mul", apart, apart))
    weighted = build.node("Mul", mass, build.node("Add", *squares))
    build.output(_reduced(build, "ReduceSum", weighted), (rows, 1))
    return build.model()


def routing(tokens: int = 16, experts: int = 8, k: int = 2, hidden: int = 32) -> ModelProto:
    """The gate of a mixture of experts: logits, softmax, the best k, renormalised."""
    build = Builder("routing")
    x, gate = build.input("x", (tokens, hidden)), build.input("gate", (hidden, experts))
    probabilities = build.node("Softmax", build.node("MatMul", x, gate), axis=-1)
    best, chosen = build.nodes("TopK", probabilities, build.constant([k]), outputs=2, axis=-1)
    build.output(build.node("Div", best, _reduced(build, "ReduceSum", best)), (tokens, k), name="weights")
    build.output(chosen, (tokens, k), "int64", name="experts")
    return build.model()


def quantised_matmul(rows: int = 8, inner: int = 64, columns: int = 16, constant: bool = False) -> ModelProto:
    """Per-row symmetric int8 quantisation of ``x``, then a matrix product and the scale back.

    Args:
        constant: whether the weight is part of the graph, as in a deployed model, or comes with each call.
    """
    build = Builder("quantised_matmul")
    x = build.input("x", (rows, inner))
    if constant:
        w = build.constant(np.random.RandomState(0).randint(-127, 128, (inner, columns), np.int8), name="w")
    else:
        w = build.input("w", (inner, columns), "int8")
    largest = _reduced(build, "ReduceMax", build.node("Abs", x))
    scale = build.node("Div", largest, build.constant(127.0, "float32"))
    rounded = build.node("Round", build.node("Div", x, scale))
    bounds = build.constant(-127.0, "float32"), build.constant(127.0, "float32")
    quantised = build.node("Cast", build.node("Clip", rounded, *bounds), to=3)
    product = build.node("Cast", build.node("MatMulInteger", quantised, w), to=1)
    build.output(build.node("Mul", product, scale), (rows, columns))
    return build.model()


def fp8_matmul(rows: int = 8, inner: int = 64, columns: int = 16) -> ModelProto:
    """Per-row quantisation of ``x`` to float8 (e4m3), then a product with ``w`` in float32 and the scale back."""
    build = Builder("fp8_matmul", opset=23)
    x, w = build.input("x", (rows, inner)), build.input("w", (inner, columns))
    largest = _reduced(build, "ReduceMax", build.node("Abs", x))
    scale = build.node("Div", largest, build.constant(448.0, "float32"))
    narrow = build.node("Cast", build.node("Div", x, scale), to=TensorProto.FLOAT8E4M3FN)
    product = build.node("MatMul", build.node("Cast", narrow, to=TensorProto.FLOAT), w)
    build.output(build.node("Mul", product, scale), (rows, columns))
    return build.model()


def _reduced(build: Builder, operator: str, value: str) -> str:
    """A reduction over the last axis that keeps it."""
    return build.node(operator, value, build.constant([-1]), keepdims=1)


def _mean_square(build: Builder, value: str) -> str:
    return _reduced(build, "ReduceMean", build.node("Mul", value, value))


def _moments(build: Builder, x: str, mean: str) -> str:
    """``max(0, E[x²] − E[x]²)``."""
    difference = build.node("Sub", _mean_square(build, x), build.node("Mul", mean, mean))
    return build.node("Max", difference, build.constant(0.0, "float32"))


#: name -> builder of every workload in every spelling, for tests that want them all.
WORKLOADS: dict[str, Callable[[], ModelProto]] = {
    "softmax": softmax,
    "softmax_handwritten": lambda: softmax(spelling="handwritten"),
    "logsumexp": logsumexp,
    "logsumexp_shifted": lambda: logsumexp(spelling="shifted"),
    "layer_norm": layer_norm,
    "layer_norm_spelled": lambda: layer_norm(spelling="spelled"),
    "layer_norm_moments": lambda: layer_norm(spelling="moments"),
    "rms_norm": rms_norm,
    "rms_norm_divided": lambda: rms_norm(spelling="divided"),
    "rms_norm_operator": lambda: rms_norm(spelling="operator"),
    "variance": variance,
    "variance_moments": lambda: variance(spelling="moments"),
    "inertia": inertia,
    "routing": routing,
    "quantised_matmul": quantised_matmul,
    "fp8_matmul": fp8_matmul,
}
