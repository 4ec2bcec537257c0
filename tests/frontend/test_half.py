"""Operators of half precision: the same as in float64, rounded once, with the same NaN and infinities."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from redfuser.codegen.cpu.module import assemble
from redfuser.errors import ModelError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import run
from tests.frontend.running import loaded, single

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
EDGES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 7.5, 1e-3, -20.0, 88.0]

UNARY = (
    *("Abs", "Acosh", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid"),
    *("HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu"),
    *("Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"),
)
BINARY = ("Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "PRelu", "Sub")


def check(operator: str, feeds: dict[str, np.ndarray], opset: int = 22) -> None:
    """Within one unit in the last place of what float64 gives."""
    proto = single(operator, feeds, opset=opset)
    with np.errstate(all="ignore"):
        (expected,) = run_float64(proto, feeds).values()
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    got = run(assemble(lower(loaded(proto)).module, [], target), *feeds.values())
    digits = ml_dtypes.finfo(next(iter(feeds.values())).dtype).nmant
    # Halves end earlier than float64: what leaves their range is infinite.
    with np.errstate(over="ignore"):
        expected = np.asarray(expected).astype(got.dtype)
    np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), rtol=2.0**-digits, atol=2.0 ** (-digits - 6))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", UNARY)
def test_functions_of_one_value(operator: str, dtype: str) -> None:
    check(operator, {"x": np.array(EDGES).astype(TYPES[dtype])})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", BINARY)
def test_functions_of_two_values(operator: str, dtype: str) -> None:
    # A slope that isn't finite is another matter: ONNX's reference multiplies it by a zero, its text doesn't.
    others = [x for x in EDGES if math.isfinite(x)] if operator == "PRelu" else EDGES
    first, second = np.meshgrid(np.array(EDGES).astype(TYPES[dtype]), np.array(others).astype(TYPES[dtype]))
    check(operator, {"x": first.copy(), "y": second.copy()})


def test_a_slope_may_be_broadcast_in_any_way() -> None:
    x = np.linspace(-2, 2, 24, dtype=np.float16).reshape(2, 3, 4)
    for shape in ((1,), (4,), (3, 1), (2, 1, 4), (2, 3, 4)):
        check("PRelu", {"x": x, "slope": np.full(shape, 0.25, np.float16)})


@pytest.mark.parametrize("operator", UNARY)
def test_operator_sets_older_than_an_operator_of_bfloat16(operator: str) -> None:
    """As PyTorch writes them."""
    check(operator, {"x": np.array(EDGES).astype(TYPES["bfloat16"])}, opset=20)


def test_a_convolution_of_bfloat16_in_an_older_operator_set() -> None:
    image, weight = np.arange(32).reshape(1, 2, 4, 4), np.arange(-18, 18).reshape(2, 2, 3, 3)
    check("Conv", {"x": image.astype(TYPES["bfloat16"]), "w": weight.astype(TYPES["bfloat16"])}, opset=18)


def test_a_convolution_of_two_types_is_refused() -> None:
    feeds = {"x": np.ones((1, 2, 4, 4), TYPES["bfloat16"]), "w": np.ones((2, 2, 3, 3), np.float32)}
    proto = single("Conv", feeds, opset=18)
    with pytest.raises(ModelError, match=r"node 'node' \(Conv\) doesn't fit its inputs: W has inconsistent type"):
        lower(loaded(proto))
