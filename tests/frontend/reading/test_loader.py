"""Safe loading: what is accepted, and what each refusal says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.errors import ModelError, UnsafeModelError
from redfuser.frontend import LoadLimits, load_model
from tests.frontend.running import graph_of, single

X = np.zeros((2, 3), np.float32)


def save(folder: Path, proto: ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def external(folder: Path, location: str, offset: str = "0", length: str = "24") -> Path:
    """A model whose initializer ``w`` [2, 3] lies in another file."""
    proto = single("Add", {"x": X}, {"w": X})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=value)
    return save(folder, proto)


def test_loads_a_model(tmp_path: Path) -> None:
    path = save(tmp_path, single("Relu", {"x": X}))
    model = load_model(path)
    assert (model.opset, model.size, len(model.digest)) == (18, path.stat().st_size, 64)
    assert str(model).startswith("model.onnx: opset 18, 1 nodes")


def test_shapes_of_inputs_and_outputs_may_be_unknown(tmp_path: Path) -> None:
    proto = single("Relu", {"x": X})
    for value in [*proto.graph.input, *proto.graph.output]:
        value.type.tensor_type.ClearField("shape")
    loaded = load_model(save(tmp_path, proto)).proto.graph
    assert not any(value.type.tensor_type.HasField("shape") for value in [*loaded.input, *loaded.output])
    proto.graph.input[0].type.ClearField("tensor_type")
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        load_model(save(tmp_path, proto))


@pytest.mark.parametrize(("own", "inner"), [(13, "Relu"), (13, "ReduceMax"), (21, "Relu")])
def test_functions_may_rely_on_another_operator_set(tmp_path: Path, own: int, inner: str) -> None:
    """Of Relu sets 13 and 18 say the same, of ReduceMax not: its axes became an input."""
    attributes = {"axes": [1], "keepdims": 0} if inner == "ReduceMax" else {}
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": X}, ["y"], domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, X.shape))
    body = [helper.make_node(inner, ["a"], ["b"], **attributes)]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", own)]))
    assert len(load_model(save(tmp_path, proto)).proto.functions) == 1
    proto.functions[0].node[0].attribute.append(helper.make_attribute("nonsense", 1))
    with pytest.raises(ModelError, match="nonsense"):
        load_model(save(tmp_path, proto))


def test_takes_group_norms_that_onnx_has_withdrawn(tmp_path: Path) -> None:
    proto = single("Relu", {"x": np.zeros((2, 6, 4), np.float32)})
    weights = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in ("s", "b")]
    proto.graph.initializer.extend(weights)
    proto.graph.node[0].CopyFrom(helper.make_node("GroupNormalization", ["x", "s", "b"], ["y0"], num_groups=3))
    loaded = load_model(save(tmp_path, proto)).proto
    assert [node.domain for node in loaded.graph.node] == [""] and len(loaded.opset_import) == 1
    proto.graph.node[0].op_type = "Scatter"  # withdrawn too, and in no model of this operator set
    with pytest.raises(ModelError, match="deprecated"):
        load_model(save(tmp_path, proto))


def test_refuses_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(ModelError, match="No such file"):
        load_model(path)
    with pytest.raises(ModelError, match="is not a file"):
        load_model(tmp_path)
    path.write_bytes(b"GIF89a, surely not a model")
    with pytest.raises(ModelError, match="not an ONNX model"):
        load_model(path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="not an ONNX model"):
        load_model(path)


def test_refuses_a_truncated_file(tmp_path: Path) -> None:
    path = save(tmp_path, single("Add", {"x": X}, {"w": X}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelError, match=r"truncated|not a valid"):
        load_model(path)


def test_refuses_an_invalid_graph_in_one_line(tmp_path: Path) -> None:
    path = save(tmp_path, single("Softmax", {"x": X}, axis="last"))
    with pytest.raises(ModelError, match="not a valid ONNX model") as caught:
        load_model(path)
    assert "\n" not in caught.value.message


def test_refuses_names_that_are_no_text(tmp_path: Path) -> None:
    path = save(tmp_path, graph_of([helper.make_node("Relu", ["in_put"], ["y"], name="a_node")], {"in_put": X}, ["y"]))
    for name in (b"in_put", b"a_node"):
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(path.read_bytes().replace(name, b"\xff" * len(name)))
        with pytest.raises(ModelError, match="UTF-8"):
            load_model(broken)


def test_limits(tmp_path: Path) -> None:
    path = save(tmp_path, single("Relu", {"x": X}))
    with pytest.raises(ModelError, match="MiB are read"):
        load_model(path, LoadLimits(model_bytes=10))
    with pytest.raises(ModelError, match="1 nodes; at most 0"):
        load_model(path, LoadLimits(nodes=0))


def test_limits_the_nesting_of_subgraphs(tmp_path: Path) -> None:
    inner = helper.make_node("Relu", ["x"], ["y0"])
    for _ in range(3):
        branch = helper.make_graph([inner], "branch", [], [helper.make_tensor_value_info("y0", 1, None)])
        inner = helper.make_node("If", ["c"], ["y0"], then_branch=branch, else_branch=branch)
    path = save(tmp_path, graph_of([inner], {"x": X, "c": np.array(True)}, ["y0"]))
    with pytest.raises(ModelError, match="deeper than 2"):
        load_model(path, LoadLimits(depth=2))
    assert load_model(path, LoadLimits(depth=3)).proto.graph.node[0].op_type == "If"


def test_refuses_data_of_the_wrong_size(tmp_path: Path) -> None:
    proto = single("Add", {"x": X}, {"w": X})
    proto.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(ModelError, match="24 bytes of data"):
        load_model(save(tmp_path, proto))


def test_reads_external_data(tmp_path: Path) -> None:
    weights = np.arange(8, dtype=np.float32)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(weights.tobytes())
    model = load_model(external(tmp_path, "data/w.bin", offset="8"))
    tensor = model.proto.graph.initializer[0]
    assert np.array_equal(numpy_helper.to_array(tensor), weights[2:].reshape(2, 3))
    assert not tensor.external_data
    (tmp_path / "data" / "w.bin").write_bytes(weights[::-1].tobytes())
    assert load_model(tmp_path / "model.onnx").digest != model.digest


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", "a/../../w.bin", "..\\w.bin", "w.bin\0"])
def test_refuses_external_data_outside(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(24))
    with pytest.raises(UnsafeModelError, match="'w'"):
        load_model(external(folder, location))


def test_refuses_links_and_special_files(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    outside = tmp_path / "w.bin"
    outside.write_bytes(bytes(24))
    (folder / "soft.bin").symlink_to(outside)
    (folder / "way").symlink_to(tmp_path)
    os.link(outside, folder / "hard.bin")
    os.mkfifo(folder / "pipe.bin")
    for location in ("soft.bin", "way/w.bin"):
        with pytest.raises(UnsafeModelError, match="plain file"):
            load_model(external(folder, location))
    with pytest.raises(UnsafeModelError, match="hard link"):
        load_model(external(folder, "hard.bin"))
    for location in ("pipe.bin", "."):
        with pytest.raises(UnsafeModelError, match=r"regular file|inside the model"):
            load_model(external(folder, location))


def test_refuses_ranges_outside_the_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(24))
    for offset, length in (("8", "24"), ("-8", "24"), ("0", "-1"), ("0", str(1 << 62))):
        with pytest.raises(UnsafeModelError, match="past the end"):
            load_model(external(tmp_path, "w.bin", offset, length))
    with pytest.raises(ModelError, match="not a number"):
        load_model(external(tmp_path, "w.bin", "here"))
    with pytest.raises(ModelError, match="does not exist"):
        load_model(external(tmp_path, "other.bin"))
    with pytest.raises(ModelError, match="limit"):
        load_model(external(tmp_path, "w.bin"), LoadLimits(external_bytes=23))


def _external(tensor: TensorProto) -> TensorProto:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../w.bin")
    return tensor


def _in_attribute() -> ModelProto:
    value = _external(numpy_helper.from_array(X, "hidden"))
    return graph_of([helper.make_node("Constant", [], ["y"], value=value)], {}, ["y"])


def _in_subgraph() -> ModelProto:
    value = _external(numpy_helper.from_array(X, "hidden"))
    copy = helper.make_node("Identity", ["hidden"], ["r"])
    branch = helper.make_graph([copy], "b", [], [helper.make_tensor_value_info("r", 1, None)], [value])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return graph_of([node], {"c": np.array(True)}, ["y"])


def _in_function() -> ModelProto:
    value = _external(numpy_helper.from_array(X, "hidden"))
    inner = helper.make_node("Constant", [], ["r"], value=value)
    proto = graph_of([helper.make_node("F", [], ["y"], domain="own")], {}, ["y"], domains={"own": 1})
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    proto.functions.append(helper.make_function("own", "F", [], ["r"], [inner], proto.opset_import))
    return proto


def _in_sparse_initializer() -> ModelProto:
    proto = graph_of([helper.make_node("Identity", ["hidden"], ["y"])], {}, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    values = _external(numpy_helper.from_array(np.ones(1, np.float32), "hidden"))
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "indices")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    return proto


@pytest.mark.parametrize("build", [_in_attribute, _in_subgraph, _in_function, _in_sparse_initializer])
def test_finds_external_data_wherever_it_hides(tmp_path: Path, build: object) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(24))
    with pytest.raises(UnsafeModelError, match="'hidden'"):
        load_model(save(folder, build()))  # type: ignore[operator]


def test_opset_of_a_model_without_operators() -> None:
    from redfuser.frontend.model import opset_of

    assert opset_of(onnx.ModelProto()) == 0


def test_of_several_operator_sets_the_last_holds() -> None:
    from redfuser.frontend.model import opset_of

    proto = onnx.ModelProto()
    proto.opset_import.extend([helper.make_opsetid("", 11), helper.make_opsetid("x", 99), helper.make_opsetid("", 13)])
    assert opset_of(proto) == 13
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 18))
    assert opset_of(proto) == 18


@pytest.mark.parametrize("version", [-1, 0, onnx.defs.onnx_opset_version() + 1, 99])
def test_refuses_operator_sets_that_onnx_does_not_know(tmp_path: Path, version: int) -> None:
    proto = single("Relu", {"x": X})
    proto.opset_import[0].version = version
    with pytest.raises(ModelError, match=f"is of operator set {version}; onnx .* knows 1 to") as caught:
        load_model(save(tmp_path, proto))
    assert ("newer onnx" in caught.value.hint) == (version > 0)


def test_takes_the_newest_operator_set_and_any_version_of_other_domains(tmp_path: Path) -> None:
    proto = single("Relu", {"x": X})
    proto.opset_import[0].version = onnx.defs.onnx_opset_version()
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99))
    assert load_model(save(tmp_path, proto)).opset == onnx.defs.onnx_opset_version()


def test_refuses_a_new_operator_set_of_a_function(tmp_path: Path) -> None:
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": X}, ["y"], domains={"own": 1})
    body = [helper.make_node("Relu", ["a"], ["b"])]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", 99)]))
    with pytest.raises(ModelError, match="operator set 99"):
        load_model(save(tmp_path, proto))


def test_names_the_version_of_a_format_that_is_too_old(tmp_path: Path) -> None:
    proto = single("Relu", {"x": X})
    proto.ir_version = 2
    with pytest.raises(ModelError, match="version 2 of ONNX's format"):
        load_model(save(tmp_path, proto))
