"""Convolutions between DequantizeLinear nodes: of bytes where they can be, untouched elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.frontend import lower
from redfuser.frontend.normalising.normalise import normalise as use_up
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.graphs import node, operators
from tests.frontend.running import graph_of, loaded, run

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (2, 5, 9, 8)).astype(np.uint8)
KERNELS = 20


def some(*shape: int, kind: type = np.int8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


# No result in these steps lies halfway between two of 0.02: there float32 decides by chance.
WHOLE = {"sw": np.float32(0.0307), "zw": np.int8(5)}
BY_KERNEL = {"sw": RNG.random(KERNELS).astype(np.float32) * 0.1, "zw": some(KERNELS)}
SYMMETRIC = {"sw": BY_KERNEL["sw"], "zw": np.zeros(KERNELS, np.int8)}
W = some(KERNELS, 5, 3, 3)


def model(
    x: np.ndarray | tuple[int, tuple[int | str, ...]],
    w: np.ndarray,
    constants: Mapping[str, Any] | None = None,
    image: tuple[str, ...] = ("x", "sx", "zx"),
    axis: int = 0,
    **attributes: object,
) -> ModelProto:
    """Of one Conv with a bias; its result is quantised and dequantised again."""
    own: dict[str, Any] = {
        **{"w": w, "sx": np.float32(0.02), "zx": np.uint8(117), "sy": np.float32(0.5), "zy": np.int8(3)},
        **{"b": RNG.integers(-9000, 9000, len(w)).astype(np.int32), "sb": np.float32(0.02) * np.float32(0.0307)},
        **(constants or WHOLE),
    }
    nodes = [
        node("DequantizeLinear", list(image), "real_x"),
        node("DequantizeLinear", ["w", "sw", "zw"], "real_w", axis=axis),
        node("DequantizeLinear", ["b", "sb"], "real_b"),
        node("Conv", ["real_x", "real_w", "real_b"], "y", "conv", **attributes),
    ]
    return graph_of(nodes, {"x": x}, ["y"], {name: np.asarray(value) for name, value in own.items()})


def normalised(proto: ModelProto) -> list[str]:
    copy = ModelProto()
    copy.CopyFrom(proto)
    return operators(use_up(copy, convolves_bytes=True))


def check(proto: ModelProto, x: np.ndarray) -> None:
    """Nearer to float64 than float32 would be as written: sums are exact."""
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_allclose(got, run_float64(proto, {"x": x})["y"], rtol=5e-7, atol=2e-6)


@pytest.mark.parametrize("constants", [WHOLE, BY_KERNEL, SYMMETRIC, {**WHOLE, "zx": np.uint8(0)}])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"pads": [0, 2, 1, 1], "strides": [2, 3]},
        {"dilations": [2, 2], "pads": [2, 1, 2, 3]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_a_convolution(attributes: Mapping[str, object], constants: Mapping[str, Any]) -> None:
    proto = model(X, W, constants, **attributes)
    found = normalised(proto)
    assert "MatMulInteger" in found and "Conv" not in found
    check(proto, X)


@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)])
def test_signs(kinds: tuple[type, type]) -> None:
    x, w = some(2, 5, 9, 8, kind=kinds[0]), some(KERNELS, 5, 3, 3, kind=kinds[1])
    check(model(x, w, {"zx": kinds[0](7), "sw": np.float32(0.0307), "zw": kinds[1](5)}, pads=[1, 1, 1, 1]), x)


AXES = [((11,), (3,)), ((5, 6, 7), (2, 1, 3)), ((6, 5), (1, 1)), ((6, 5), (1, 3))]


@pytest.mark.parametrize(("image", "kernel"), AXES)
@pytest.mark.parametrize("stride", [1, 2])
def test_axes(image: tuple[int, ...], kernel: tuple[int, ...], stride: int) -> None:
    x, w = some(2, 5, *image, kind=np.uint8), some(KERNELS, 5, *kernel)
    proto = model(x, w, strides=[stride] * len(image))
    assert "MatMulInteger" in normalised(proto)
    check(proto, x)


def test_a_batch_of_open_size() -> None:
    proto = model((TensorProto.UINT8, ("n", *X.shape[1:])), W, pads=[1, 1, 1, 1])
    lowered = lower(loaded(proto), convolves_bytes=True)
    for size in (1, 2):
        (got,) = run(lowered, {"x": X[:size]})
        np.testing.assert_allclose(got, run_float64(proto, {"x": X[:size]})["y"], rtol=5e-7, atol=2e-6)


@pytest.mark.parametrize("constants", [WHOLE, BY_KERNEL, {**SYMMETRIC, "zx": np.uint8(0)}])
@pytest.mark.parametrize("attributes", [{"pads": [1, 1, 1, 1]}, {"strides": [2, 2], "pads": [1, 0, 0, 1]}])
def test_each_channel_by_itself(attributes: Mapping[str, object], constants: Mapping[str, Any]) -> None:
    x, w = some(2, KERNELS, 9, 8, kind=np.uint8), some(KERNELS, 1, 3, 3)
    proto = model(x, w, constants, group=KERNELS, **attributes)
    found = normalised(proto)
    assert "Conv" not in found and ("ReduceSum" in found) == (constants["zw"] is SYMMETRIC["zw"])
    check(proto, x)


OPEN = (TensorProto.UINT8, (2, 5, "h", 8))
NO_ZERO = ("x", "sx")


@pytest.mark.parametrize(
    "proto",
    [
        model(OPEN, W),  # no table of patches
        model(X, W[:8]),  # too few kernels
        model(X, W, {**WHOLE, "sw": np.full(5, 0.0307, np.float32), "zw": np.zeros(5, np.int8)}, axis=1),  # by channel
        model(X, W, image=NO_ZERO),  # bytes of a type that nothing says
        model(some(1, 4000, 3, 3, kind=np.uint8), some(16, 4000, 3, 3)),  # sums that int32 doesn't hold
        model(some(1, 10, 9, 8, kind=np.uint8), W, group=2),
        model(some(1, KERNELS, 20, 20, kind=np.uint8), some(KERNELS, 1, 7, 7), group=KERNELS),  # too long
    ],
)
def test_what_stays_a_convolution(proto: ModelProto) -> None:
    found = normalised(proto)
    assert "Conv" in found and "MatMulInteger" not in found


def test_targets_without_products_of_bytes_keep_it() -> None:
    assert "Conv" in operators(use_up(model(X, W)))


def chain(*between: helper.NodeProto, last: str) -> ModelProto:
    """Two convolutions, and what lies between them: from ``y`` to ``last``, bytes of scale ``sx`` and zero ``zx``."""
    proto = model(some(2, KERNELS, 6, 6, kind=np.uint8), some(KERNELS, KERNELS, 3, 3), pads=[1, 1, 1, 1])
    graph = proto.graph
    first = list(graph.node)
    first[-1].output[0] = "middle"
    again = [
        node("DequantizeLinear", [last, "sx", "zx"], "real_again"),
        node("Conv", ["real_again", "real_w", "real_b"], "y", "again"),
    ]
    return graph_of(
        [*first, *between, *again],
        {"x": some(2, KERNELS, 6, 6, kind=np.uint8)},
        ["y"],
        {tensor.name: _array(tensor) for tensor in graph.initializer},
    )


def _array(tensor: TensorProto) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


QUANTISE = node("QuantizeLinear", ["middle", "sx", "zx"], "q")


def transpositions(proto: ModelProto) -> int:
    """Those of whole images: not of patches, which have more axes."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    return sum(n.op_type == "Transpose" and len(n.attribute[0].ints) == 4 for n in use_up(copy, True).graph.node)


def check_chain(proto: ModelProto) -> None:
    """Quantised values may differ by a step where float32 rounds beside a half: most of the result doesn't."""
    x = some(2, KERNELS, 6, 6, kind=np.uint8)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    far = ~np.isclose(got, run_float64(proto, {"x": x})["y"], rtol=1e-6, atol=1e-5)
    assert far.mean() < 0.05


def test_channels_stay_last_between_two_convolutions() -> None:
    proto = chain(node("Relu", ["middle"], "r"), node("QuantizeLinear", ["r", "sx", "zx"], "q"), last="q")
    assert transpositions(proto) == 2  # of x, and of y
    check_chain(proto)


def test_channels_stay_last_through_a_sum_with_the_input() -> None:
    total = node("Add", ["middle", "real_x"], "s")
    proto = chain(total, node("QuantizeLinear", ["s", "sx", "zx"], "q"), last="q")
    assert transpositions(proto) == 2
    check_chain(proto)


def test_channels_come_second_where_an_operator_needs_them() -> None:
    soft = node("Softmax", ["middle"], "s", axis=2)
    proto = chain(soft, node("QuantizeLinear", ["s", "sx", "zx"], "q"), last="q")
    assert transpositions(proto) == 4
    check_chain(proto)


def test_bytes_are_turned_rather_than_what_they_stand_for() -> None:
    back = [node("DequantizeLinear", ["q", "sx", "zx"], "d"), node("Softmax", ["d"], "s", axis=2)]
    proto = chain(QUANTISE, *back, node("QuantizeLinear", ["s", "sx", "zx"], "p"), last="p")
    copy = ModelProto()
    copy.CopyFrom(proto)
    normal = use_up(copy, True).graph
    (turned,) = [n.input[0] for n in normal.node if n.op_type == "Transpose" and n.output[0] == "q"]
    assert {n.op_type for n in normal.node if turned in n.output} == {"QuantizeLinear"}
    check_chain(proto)


def pool(x: np.ndarray, scale: float = 0.02, indices: bool = False, **attributes: object) -> ModelProto:
    zero = x.dtype.type(7)
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], "real_x"),
        helper.make_node("MaxPool", ["real_x"], ["y", "i"] if indices else ["y"], name="pool", **attributes),
    ]
    return graph_of(nodes, {"x": x}, ["y", "i"] if indices else ["y"], {"sx": np.float32(scale), "zx": zero})


CHANNELS = 16


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"kernel_shape": [2, 3], "dilations": [2, 1]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ],
)
def test_the_largest_of_a_window(attributes: Mapping[str, object], kind: type) -> None:
    x = some(2, CHANNELS, 9, 7, kind=kind)
    proto = pool(x, **attributes)
    found = normalised(proto)
    assert "Max" in found and "MaxPool" not in found
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_allclose(got, run_float64(proto, {"x": x})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    "proto",
    [
        pool(some(2, CHANNELS, 9, 7), indices=True, kernel_shape=[3, 3]),
        pool(some(2, CHANNELS, 9, 7), scale=-0.02, kernel_shape=[3, 3]),  # of which the largest is the least byte
        pool(some(2, 3, 9, 7), kernel_shape=[3, 3]),  # few channels
        pool(some(2, CHANNELS, 9, 7), kernel_shape=[6, 6]),  # too long to be written out
    ],
)
def test_what_stays_a_pool(proto: ModelProto) -> None:
    assert "MaxPool" in normalised(proto)


def quantised_again(
    x: np.ndarray, w: np.ndarray, several: bool = True, bias: bool = True, **attributes: object
) -> ModelProto:
    """One QLinearConv."""
    kernels, kind = len(w), w.dtype.type
    own: dict[str, Any] = {
        **{"w": w, "sx": np.float32(0.02), "zx": x.dtype.type(7), "sy": np.float32(0.7), "zy": x.dtype.type(100)},
        "sw": np.linspace(0.02, 0.04, kernels, dtype=np.float32) if several else np.float32(0.03),
        "zw": np.full(kernels if several else (), 3 if kind is np.int8 else 128, kind),
        "b": RNG.integers(-9000, 9000, kernels).astype(np.int32),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", *(["b"] if bias else [])]
    used = {name: np.asarray(own[name]) for name in names[1:]}
    return graph_of([node("QLinearConv", names, "y", "conv", **attributes)], {"x": x}, ["y"], used)


def check_exactly(proto: ModelProto, x: np.ndarray) -> None:
    """The very bytes of ONNX Runtime, and those of float64 but for quotients beside a half."""
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])
    exact = run_float64(proto, {"x": x})["y"]
    assert got.dtype == exact.dtype
    steps = np.abs(got.astype(int) - exact.astype(int))
    assert steps.max(initial=0) <= 1 and steps.mean() < 1e-3


@pytest.mark.parametrize(
    ("kinds", "several", "attributes"),
    [
        ((np.uint8, np.int8), True, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((np.uint8, np.uint8), False, {"auto_pad": "SAME_UPPER"}),
        ((np.uint8, np.uint8), True, {}),
        ((np.int8, np.int8), False, {"dilations": [2, 2], "pads": [2] * 4}),
    ],
)
def test_quantised_again(attributes: Mapping[str, object], several: bool, kinds: tuple[type, type]) -> None:
    x, w = some(2, 5, 9, 8, kind=kinds[0]), some(KERNELS, 5, 3, 3, kind=kinds[1])
    proto = quantised_again(x, w, several, **attributes)
    found = normalised(proto)
    assert "MatMulInteger" in found and "Conv" not in found
    check_exactly(proto, x)


@pytest.mark.parametrize("bias", [True, False])
def test_each_channel_by_itself_quantised_again(bias: bool) -> None:
    x, w = some(2, KERNELS, 9, 8, kind=np.uint8), some(KERNELS, 1, 3, 3)
    proto = quantised_again(x, w, bias=bias, group=KERNELS, pads=[1, 1, 1, 1])
    found = normalised(proto)  # weights less their zero point are no bytes
    assert "Conv" not in found and found.count("Mul") == 10
    check_exactly(proto, x)


@pytest.mark.parametrize(("image", "kernel"), [((9, 8), (3, 3)), ((9, 8), (1, 3)), ((11,), (3,))])
def test_bytes_of_each_channel_by_itself(image: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    x, w = some(2, KERNELS, *image, kind=np.uint8), some(KERNELS, 1, *kernel, kind=np.uint8)
    proto = quantised_again(x, w, several=False, group=KERNELS, pads=[1, 1] * len(image))
    assert "ReduceSum" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


def test_along_one_axis_quantised_again() -> None:
    x, w = some(2, 5, 11, kind=np.uint8), some(KERNELS, 5, 3)
    proto = quantised_again(x, w, pads=[1, 1])  # of which ONNX's reference implementation takes two axes at least
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


@pytest.mark.parametrize(
    "proto",
    [
        quantised_again(some(2, 5, 9, 8, kind=np.uint8), W[:8]),  # too few kernels
        quantised_again(some(1, 10, 9, 8, kind=np.uint8), W, group=2),
    ],
)
def test_what_is_quantised_again_from_floating_point(proto: ModelProto) -> None:
    found = normalised(proto)
    assert "Conv" in found and "QLinearConv" not in found and "MatMulInteger" not in found


@pytest.mark.parametrize("zeros", [("", ""), ("zx", ""), ("zx", "zw")])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_sums_of_bytes(kind: type, zeros: tuple[str, str]) -> None:
    w = some(KERNELS, 5, 3, 3, kind=kind)
    names = ["x", "w", *zeros]
    while not names[-1]:
        names.pop()
    one = node("ConvInteger", names, "y", "conv", pads=[1, 1, 0, 1], strides=[2, 1])
    constants = {"w": w, "zx": np.uint8(17), "zw": kind(3)}
    proto = graph_of([one], {"x": X}, ["y"], {n: np.asarray(v) for n, v in constants.items() if n in names})
    assert "MatMulInteger" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": X})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": X}, 1)["y"])


def dynamic(kernels: int = KERNELS, group: int = 1) -> ModelProto:
    """Two convolutions, images quantised by their own range, as ``quantize_dynamic`` writes them."""
    w = some(kernels, kernels // group, 3, 3, kind=np.uint8)
    constants = {"w": w, "sw": np.float32(0.01), "zw": np.uint8(120), "b": RNG.random((1, kernels, 1, 1))}
    nodes = [
        node_many for place in ("x", "r") for node_many in _dynamic_nodes(place, "r" if place == "x" else "y", group)
    ]
    own = {name: np.asarray(value, None if name != "b" else np.float32) for name, value in constants.items()}
    return graph_of(nodes, {"x": RNG.random((1, kernels, 6, 6)).astype(np.float32)}, ["y"], own)


def _dynamic_nodes(source: str, target: str, group: int) -> list[Any]:
    q, s, z = (f"{source}_{part}" for part in ("q", "s", "z"))
    return [
        helper.make_node("DynamicQuantizeLinear", [source], [q, s, z], name=f"{source}_quantise"),
        node("ConvInteger", [q, "w", z, "zw"], f"{source}_i", f"{source}_conv", pads=[1, 1, 1, 1], group=group),
        node("Cast", [f"{source}_i"], f"{source}_f", to=int(TensorProto.FLOAT)),
        node("Mul", [s, "sw"], f"{source}_scale"),
        node("Mul", [f"{source}_f", f"{source}_scale"], f"{source}_m"),
        node("Add", [f"{source}_m", "b"], f"{source}_b"),
        node("Relu", [f"{source}_b"], target),
    ]


def test_channels_stay_last_between_images_quantised_by_their_own_range() -> None:
    proto = dynamic()
    assert normalised(proto).count("MatMulInteger") == 2 and transpositions(proto) == 2
    x = RNG.random((1, KERNELS, 6, 6)).astype(np.float32)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_allclose(got, run_onnxruntime(proto, {"x": x}, 1)["y"], rtol=1e-5, atol=1e-5)


def test_many_images_quantised_by_their_own_range_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redfuser.frontend.normalising.byte_convolutions.MOST_BY_OWN_RANGE", 1)
    assert normalised(dynamic()).count("Conv") == 2


def test_each_channel_by_itself_needs_a_known_zero_point() -> None:
    assert normalised(dynamic(group=KERNELS)).count("Conv") == 2


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_the_largest_of_a_window_of_bytes(kind: type) -> None:
    x = some(2, CHANNELS, 9, 7, kind=kind)
    one = node("MaxPool", ["x"], "y", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    proto = graph_of([one], {"x": x}, ["y"], {})
    assert "Max" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


@pytest.mark.parametrize(
    "cut", [("Relu", []), ("Clip", ["low", "high"]), ("Clip", ["", "high"]), ("Clip", ["low"]), None]
)
@pytest.mark.parametrize("bias", ["b", "real"])
def test_between_dequantising_and_quantising(cut: tuple[str, list[str]] | None, bias: str) -> None:
    """A bias in units of both scales is added to the sums, any other to their multiples."""
    units = np.float32(0.02) * np.float32(0.0307)
    proto = model(X, W, {**WHOLE, "sb": units if bias == "b" else np.float32(3 * units)}, pads=[1, 1, 1, 1])
    graph = proto.graph
    constants = {tensor.name: _array(tensor) for tensor in graph.initializer}
    constants |= {"low": np.float32(-9.3), "high": np.float32(40.2), "real": RNG.random(KERNELS).astype(np.float32)}
    nodes = list(graph.node)
    nodes[-1].output[0] = "middle"
    nodes[-1].input[2] = "real_b" if bias == "b" else "real"
    if cut:
        nodes.append(node(cut[0], ["middle", *cut[1]], "cut"))
    nodes.append(node("QuantizeLinear", ["cut" if cut else "middle", "sy", "zy"], "y"))
    whole = graph_of(nodes, {"x": X}, ["y"], {name: np.asarray(value) for name, value in constants.items()})
    found = normalised(whole)
    assert "MatMulInteger" in found and found.count("Mul") == 1
    (got,) = run(lower(loaded(whole), convolves_bytes=True), {"x": X})
    steps = np.abs(got.astype(int) - run_float64(whole, {"x": X})["y"].astype(int))
    assert steps.max() <= 1 and steps.mean() < 1e-3


def test_channels_stay_last_in_a_concatenation() -> None:
    sources = [node("Relu", ["middle"], "a"), node("Sigmoid", ["middle"], "c")]
    both = node("Concat", ["a", "c"], "both", axis=-3)
    proto = chain(*sources, both, node("Slice", ["both", "from", "to", "along"], "half"), QUANTISE_HALF, last="q")
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.array([value], np.int64), name)
        for name, value in {"from": 10, "to": 10 + KERNELS, "along": 1}.items()
    )
    copy = ModelProto()
    copy.CopyFrom(proto)
    (joined,) = [n for n in use_up(copy, True).graph.node if n.op_type == "Concat"]
    assert joined.attribute[0].i == 3
    check_chain(proto)


QUANTISE_HALF = node("QuantizeLinear", ["half", "sx", "zx"], "q")
