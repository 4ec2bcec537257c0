"""Operators of half precision: the same as in float64, rounded once, with the same NaN and infinities."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import tvm
from onnx import ModelProto

from redfuser.codegen.cpu.module import Assembly, assemble
from redfuser.errors import ModelError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import opened, run
from tests.frontend.running import loaded, single

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
EDGES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 7.5, 1e-3, -20.0, 88.0]

UNARY = (
    *("Abs", "Acosh", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid"),
    *("HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu"),
    *("Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"),
)
#: Operator -> attributes, shapes of its inputs in half precision, other inputs.
FURTHER: tuple[tuple[str, dict[str, object], list[tuple[int, ...]], list[np.ndarray]], ...] = (
    ("LRN", {"size": 3}, [(1, 5, 4, 4)], []),
    ("LpPool", {"kernel_shape": [3, 3], "strides": [2, 2]}, [(1, 2, 7, 7)], []),
    ("Mod", {"fmod": 1}, [(3, 1, 7), (4, 1)], []),
    ("TopK", {}, [(4, 17)], [np.array([3])]),
)
BINARY = ("Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "PRelu", "Sub")


def assembled(proto: ModelProto) -> Assembly:
    """The model for this machine's CPU, nothing fused."""
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    return assemble(lower(loaded(proto)).module, [], target)


def check(operator: str, feeds: dict[str, np.ndarray], opset: int = 22) -> None:
    """Within one unit in the last place of what float64 gives."""
    proto = single(operator, feeds, opset=opset)
    with np.errstate(all="ignore"):
        (expected,) = run_float64(proto, feeds).values()
    got = run(assembled(proto), *feeds.values())
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


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("operator", "attributes", "shapes", "others"), FURTHER, ids=[case[0] for case in FURTHER])
def test_functions_of_tensors(
    operator: str, attributes: dict[str, object], shapes: list[tuple[int, ...]], others: list[np.ndarray], dtype: str
) -> None:
    draw = np.random.default_rng(0)
    feeds = {f"x{place}": draw.standard_normal(shape).astype(TYPES[dtype]) for place, shape in enumerate(shapes)}
    constants = {f"c{place}": other for place, other in enumerate(others)}
    proto = single(operator, feeds, constants, 2 if operator == "TopK" else 1, opset=24, **attributes)
    results = opened(assembled(proto))["main"](*map(tvm.runtime.tensor, feeds.values()))
    got = [results.numpy()] if operator != "TopK" else [result.numpy() for result in results]
    digits = ml_dtypes.finfo(TYPES[dtype]).nmant
    for value, expected in zip(got, run_float64(proto, feeds).values(), strict=True):
        assert value.dtype == (TYPES[dtype] if expected.dtype == np.float64 else expected.dtype)
        np.testing.assert_allclose(value.astype("f8"), expected, rtol=2.0**-digits, atol=2.0 ** (-digits - 6))


def test_powers() -> None:
    x, y = np.meshgrid(np.array([0.0, 0.5, 2, 7.5]), np.array([0.5, 2, -1.5, math.inf, math.nan]))
    for dtype in TYPES.values():
        check("Pow", {"x": x.astype(dtype), "y": y.astype(dtype)})


@pytest.mark.parametrize("dtype", TYPES)
def test_one_hot_in_the_type_of_its_values(dtype: str) -> None:
    indices = np.array([1, 3])
    constants = {"depth": np.array(4), "values": np.array([0.5, 2], TYPES[dtype])}
    got = run(assembled(single("OneHot", {"i": indices}, constants)), indices)
    assert got.dtype == TYPES[dtype] and got.tolist() == [[0.5, 2, 0.5, 0.5], [0.5, 0.5, 0.5, 2]]


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
