"""Arrays that go into a loaded module and come out of it: whose memory they are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

import redfuser
from redfuser.artifact.load import LoadedModel

Array = np.ndarray

OPSET = '<ir_version: 8, opset_import: ["" : 18]>\n'

#: Results that are an input, a constant, one array twice, and arrays of their own.
ALIASES = """g (float[3,40] x)
    => (float[3,40] same, float[2] fixed, float[3,40] once, float[3,40] twice, float[120] flat)
    <float[2] k = {1.0, 2.0}, int64[1] s = {-1}> {
    same = Identity(x)  fixed = Identity(k)  once = Relu(x)  twice = Identity(once)  flat = Reshape(once, s) }"""

#: Everything there is code for: fused cascades, products, reductions, element-wise operations.
KINDS = """g (float[5,70] x, float[70,33] w, float[33] b)
    => (float[5,33] y, float[5,70] n, float[5] m, float[5,70] e)
    <int64[1] a = {-1}> {
    p = MatMul(x, w)  q = Add(p, b)  y = Softmax<axis=-1>(q)
    t = Mul(x, x)  s = ReduceSum<keepdims=1>(t, a)  n = Div(x, s)  m = ReduceMax<keepdims=0>(x, a)  e = Exp(x) }"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    made: dict[str, LoadedModel] = {}

    def get(text: str) -> LoadedModel:
        if text not in made:
            folder = tmp_path_factory.mktemp("memory")
            onnx.save(parser.parse_model(OPSET + text), folder / "model.onnx")
            redfuser.compile(folder / "model.onnx", output=folder / "out")
            made[text] = redfuser.load(folder / "out")
        return made[text]

    return get


def test_results_belong_to_the_caller(compiled) -> None:
    model = compiled(ALIASES)
    x = np.random.default_rng(0).standard_normal((3, 40), dtype=np.float32)
    kept, relu = x.copy(), np.maximum(x, 0)
    expected = {"same": kept, "fixed": np.float32([1, 2]), "once": relu, "twice": relu, "flat": relu.reshape(-1)}
    first = model({"x": x})
    for name, value in first.items():
        np.testing.assert_array_equal(value, expected[name])
        value.fill(np.nan)
        others = {other: array for other, array in first.items() if not np.isnan(array).all()}
        assert set(others) == set(list(first)[list(first).index(name) + 1 :]), f"{name} shares memory with another"
    np.testing.assert_array_equal(x, kept)
    for name, value in model({"x": x}).items():
        np.testing.assert_array_equal(value, expected[name])


def test_results_stay_while_later_calls_run(compiled) -> None:
    model = compiled(ALIASES)
    inputs = [np.full((3, 40), number, np.float32) for number in range(20)]
    results = [model({"x": x}) for x in inputs]
    for number, result in enumerate(results):
        assert (result["same"] == number).all() and (result["flat"] == number).all()


def test_large_arrays_are_not_copied(compiled) -> None:
    """An output's memory serves a later call once the array is gone."""
    model = compiled("g (float[512,1024] x) => (float[512,1024] y) { y = Relu(x) }")
    x = np.ones((512, 1024), np.float32)
    places = {model({"x": x})["y"].ctypes.data for _ in range(6)}
    assert len(places) <= 2


@pytest.mark.parametrize("offset", range(0, 64, 12))
def test_inputs_lie_anywhere(compiled, offset: int) -> None:
    model = compiled(KINDS)
    generator = np.random.default_rng(offset)
    feeds = {spec.name: generator.standard_normal(spec.shape).astype(np.float32) for spec in model.inputs}
    expected = model({name: aligned(value, 0) for name, value in feeds.items()})
    moved = model({name: aligned(value, offset) for name, value in feeds.items()})
    for name, value in moved.items():
        np.testing.assert_array_equal(value, expected[name])


def aligned(value: Array, offset: int) -> Array:
    """A copy that begins ``offset`` bytes after a multiple of 64."""
    room = np.zeros(value.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    copy = room[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def views(x: Array) -> dict[str, Array]:
    """Arrays that NumPy can't hand on as they are, or only to read."""
    frozen = x.copy()
    frozen.flags.writeable = False
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[...] = x
    return {
        "read-only": frozen,
        "reversed": x[:, ::-1],
        "broadcast": np.broadcast_to(x[:1], x.shape),
        "other byte order": x.astype(x.dtype.newbyteorder()) if x.dtype.kind == "f" else x,
        "unaligned": unaligned,
    }


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float", "float32"), ("float16", "float16"), ("bool", "bool"), ("bfloat16", ml_dtypes.bfloat16)],
)
def test_any_array_goes_in(compiled, name: str, dtype: object) -> None:
    model = compiled(f"g ({name}[4,6] x) => ({name}[4,6] y) {{ y = Identity(x) }}")
    x = (np.arange(24) % 3).reshape(4, 6).astype(dtype)
    for label, view in views(x).items():
        result = model({"x": view})["y"]
        assert result.dtype == x.dtype and result.flags.writeable, label
        np.testing.assert_array_equal(result, view, label)
