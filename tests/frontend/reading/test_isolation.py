"""Reading in a process of its own: what comes back, and what its death becomes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

import redfuser
from redfuser.errors import MissingToolError, ModelError, UnsafeModelError, UsageError
from redfuser.frontend import LoadLimits, load_model, prepare, prepare_file
from redfuser.frontend.reading import exchange, isolation
from redfuser.records import RecordError
from redfuser.signature import DimRange
from tests.frontend.running import graph_of, single

X = np.zeros((2, 3), np.float32)


def save(folder: Path, proto: ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def laughs(levels: int, overloaded: bool = False) -> ModelProto:
    """A graph of one call of a function that calls another twice, which calls another twice … or overloads of one."""

    def called(level: int) -> dict[str, str]:
        name, overload = ("F", str(level)) if overloaded else (f"F{level}", "")
        return {"op_type": name, "domain": "own", "overload": overload} if level < levels else {"op_type": "Relu"}

    proto = graph_of([helper.make_node(inputs=["x"], outputs=["y"], **called(0))], {"x": X}, ["y"], domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [2, 3]))
    for level in range(levels):
        calls = [helper.make_node(inputs=[a], outputs=[b], **called(level + 1)) for a, b in (("a", "m"), ("m", "b"))]
        own = called(level)
        function = helper.make_function("own", own["op_type"], ["a"], ["b"], calls, proto.opset_import)
        function.overload = own["overload"]
        proto.functions.append(function)
    return proto


def test_gives_what_this_process_would(tmp_path: Path) -> None:
    large = np.arange(6000, dtype=np.float32).reshape(2000, 3)
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Mul", ["s", "one"], ["y"])]
    inputs = {"x": (1, ["n", 3])}
    path = save(tmp_path, graph_of(nodes, inputs, ["y"], {"w": large, "one": np.float32(1)}))
    got, expected = prepare_file(path, {"n": 2000}), prepare(load_model(path), {"n": 2000})
    assert replace(got, proto=got.whole(), weights={}) == expected
    assert np.array_equal(numpy_helper.to_array(got.whole().graph.initializer[0]), large)
    assert not got.proto.graph.initializer[0].raw_data
    assert got.weights["w"].tobytes() == large.tobytes()
    assert str(got).startswith("model.onnx: opset 18, 2 nodes")


def test_hands_refusals_on(tmp_path: Path) -> None:
    proto = graph_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, ["n", 3])}, ["y"])
    path = save(tmp_path, proto)
    assert prepare_file(path, {"n": DimRange(2, 9)}).dims == {"n": DimRange(2, 9)}
    with pytest.raises(UsageError, match="no 'm'"):
        prepare_file(path, {"m": 2})
    with pytest.raises(ModelError, match="No such file"):
        prepare_file(tmp_path / "other.onnx")
    proto = single("Add", {"x": X}, {"w": X})
    proto.graph.initializer[0].ClearField("raw_data")
    proto.graph.initializer[0].data_location = 1
    proto.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")
    with pytest.raises(UnsafeModelError, match="'w'"):
        prepare_file(save(tmp_path, proto))


def test_a_child_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.touch()
    os.truncate(path, 1 << 30)
    with pytest.raises(ModelError, match="more than 1024 MiB of memory"):
        prepare_file(path, limits=LoadLimits(memory_bytes=1 << 30))


def test_a_child_out_of_time(tmp_path: Path) -> None:
    path = save(tmp_path, laughs(24))
    limits = LoadLimits(nodes=1 << 60, seconds=1.5)
    with pytest.raises(ModelError, match=r"more than 1.5 seconds of a processor and was stopped"):
        prepare_file(path, limits=limits)


def test_waiting_is_not_counted_until_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, single("Relu", {"x": X}))
    command = tmp_path / "python"
    command.write_text(f'#!/bin/sh\nsleep 3\nexec {sys.executable} "$@"\n')
    command.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(command))
    with pytest.raises(MissingToolError, match=r"wasn't done after 0\.5 seconds"):
        prepare_file(path, limits=LoadLimits(patience=0.5))
    # Three seconds of sleep are none of a processor; reading this takes well under three.
    assert prepare_file(path, limits=LoadLimits(seconds=3)).nodes == 1


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (signal.SIGSEGV, ModelError, "crashed .SIGSEGV."),
        (signal.SIGABRT, ModelError, "crashed .SIGABRT."),
        (signal.SIGXCPU, ModelError, "more than 600 seconds of a processor"),
        (signal.SIGALRM, MissingToolError, "wasn't done after 21600 seconds"),
        (signal.SIGKILL, MissingToolError, "was killed"),
    ],
)
def test_a_child_that_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, kind: type[Exception], words: str
) -> None:
    command = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"]
    monkeypatch.setattr(isolation, "_run", lambda limits, folder: subprocess.run(command, check=False).returncode)
    with pytest.raises(kind, match=words):
        redfuser.compile(save(tmp_path, single("Relu", {"x": X})), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_child_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, single("Relu", {"x": X}))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(MissingToolError, match="cannot be used"):
        prepare_file(path)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MissingToolError, match="status 1"):
        prepare_file(path)


def test_hostile_models_are_refused_by_what_they_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"[0-9]{9,} nodes; at most 100000"):
        prepare_file(save(tmp_path, laughs(27)))
    with pytest.raises(ModelError, match=r"[0-9]{9,} nodes; at most 100000"):
        prepare_file(save(tmp_path, laughs(27, overloaded=True)))
    assert len(prepare_file(save(tmp_path, laughs(2, overloaded=True))).proto.graph.node) == 4
    proto = laughs(2)
    proto.functions[1].node[0].op_type, proto.functions[1].node[0].domain = "F0", "own"
    with pytest.raises(ModelError, match="F0 calls itself"):
        prepare_file(save(tmp_path, proto))
    huge = graph_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, [1 << 31, 1 << 31])}, ["y"])
    with pytest.raises(ModelError, match="value 'x' has the shape"):
        prepare_file(save(tmp_path, huge))


def test_believes_no_reply_that_contradicts_itself(tmp_path: Path) -> None:
    path = save(tmp_path, single("Add", {"x": np.zeros((2000, 3), np.float32)}, {"w": np.ones((2000, 3), np.float32)}))
    exchange.write_prepared(tmp_path, prepare(load_model(path)))
    exchange.read_prepared(tmp_path, path)
    for weights in (b"short", b""):
        (tmp_path / exchange.WEIGHTS).write_bytes(weights)
        with pytest.raises(RecordError, match="don't fit"):
            exchange.read_prepared(tmp_path, path)
    (tmp_path / exchange.MODEL).write_bytes(b"GIF89a")
    with pytest.raises(RecordError, match="not an ONNX model"):
        exchange.read_prepared(tmp_path, path)
