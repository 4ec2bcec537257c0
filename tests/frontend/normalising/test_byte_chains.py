"""Between convolutions of bytes the channels stay last."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.frontend import lower
from redfuser.frontend.normalising.normalise import normalise as use_up
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.byte_graphs import (
    KERNELS,
    RNG,
    model,
    normalised,
    some,
)
from tests.frontend.normalising.graphs import node
from tests.frontend.running import graph_of, loaded, run


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
        {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer},
    )


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


def test_each_channel_by_itself_needs_a_known_zero_point() -> None:
    assert normalised(dynamic(group=KERNELS)).count("Conv") == 2
