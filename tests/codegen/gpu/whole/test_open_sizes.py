"""A model of open batch and length for a GPU: one artifact, at many sizes on a driver that records and computes."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

import redfuser as library
from models.builder import Builder, weights
from models.tiny_bert import BertShape, tiny_bert
from redfuser.errors import DynamicShapeError
from redfuser.signature import DimRange
from tests.codegen.gpu.whole.recording import Recorder
from tests.emulator.artifact import emulating, sources_of
from tests.emulator.library import needs_compiler

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toolchain")]

BERT = BertShape(length=200, symbolic=True, layers=1)
CAPABILITY = {"h800": 90, "a10": 86}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert") / "bert.onnx"
    onnx.save(tiny_bert(BERT), path)
    return path


@pytest.fixture(scope="module", params=CAPABILITY)
def artifact(bert: Path, request: pytest.FixtureRequest) -> tuple[Path, int]:
    """The artifact for a target, and the target's compute capability."""
    output = bert.with_name(request.param)
    library.compile(bert, target=request.param, output=output, dims={"batch": DimRange(1, 5)}, strict=True)
    return output, CAPABILITY[request.param]


def test_everything_is_fused_and_every_product_is_a_kernel(artifact: tuple[Path, int]) -> None:
    report = json.loads((artifact[0] / "report.json").read_text())
    assert {entry["verdict"] for entry in report["cascades"]} == {"fused"}
    assert len(report["products"]) >= 3 and all(entry["strategy"] for entry in report["products"])


@needs_compiler
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 63), (2, 64), (3, 65), (1, 127), (1, 129), (5, 37)])
def test_it_computes_the_model_at_every_size(
    batch: int, length: int, artifact: tuple[Path, int], bert: Path, recorder: Recorder, tmp_path: Path
) -> None:
    output, capability = artifact
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    sizes = ("--dim", f"batch={batch}", "--dim", f"length={length}")
    done = emulator.redfuser("verify", output, "--model", bert, "--device", "cuda", *sizes, capability=capability)
    assert done.code == 0 and "PASSED" in done.output, done.output
    assert f"batch={batch}, length={length}" in done.output
    rows = [event["grid"] for event in done.of("launch") if event["kernel"].startswith("attention_0")]
    assert rows and all(-(-length // 128) in grid or -(-length // 64) in grid for grid in rows)


#: Runs an artifact at many lengths; prints the memory of the device that is in use after each call.
MANY = """
import sys, numpy
import redfuser
from redfuser.artifact import kept
kept.KEPT_BYTES = 1 << 20
model = redfuser.load(sys.argv[1])
for length in range(1, 150):
    model({spec.name: numpy.ones((2, length), spec.dtype) for spec in model.inputs})
    print(kept.device_bytes(model.device))
"""


def test_many_sizes_take_bounded_memory(artifact: tuple[Path, int], recorder: Recorder) -> None:
    output, capability = artifact
    done = recorder.run("-c", MANY, str(output), capability=capability)
    used = list(map(int, done.output.split()))
    assert len(used) == 149 and max(used) < used[0] + (4 << 20), done.output


def test_sizes_out_of_range_are_refused(artifact: tuple[Path, int], recorder: Recorder) -> None:
    output, capability = artifact
    done = recorder.redfuser("run", output, "--dim", "batch=6", "--device", "cuda", capability=capability)
    assert done.code == 2 and "the module takes 1 to 5" in done.output and not done.of("launch")


@needs_compiler
@pytest.mark.parametrize("target", CAPABILITY)
def test_what_is_not_fused_is_right_at_every_size(target: str, recorder: Recorder, tmp_path: Path) -> None:
    build, generator = Builder("mixed"), np.random.RandomState(0)
    x = build.input("x", ("n", 40))
    product = build.node("MatMul", x, build.constant(weights(generator, 40, 48)))
    build.output(build.node("Relu", product), ("n", 48), name="product")
    build.output(build.node("MatMul", build.node("Transpose", x, perm=[1, 0]), x), (40, 40), name="along")
    build.output(build.node("ReduceMax", x, build.constant([0]), keepdims=0), (40,), name="columns")
    build.output(build.node("ReduceMin", x, build.constant([1]), keepdims=0), ("n",), name="rows")
    build.output(build.node("ReduceMax", x, keepdims=0), (), name="largest")
    build.output(build.node("ReduceSum", x, build.constant([0]), keepdims=0), (40,), name="sums")
    build.output(build.node("Softmax", build.node("Transpose", x, perm=[1, 0]), axis=1), (40, "n"), name="softmax")
    onnx.save(build.model(), tmp_path / "mixed.onnx")
    output = tmp_path / "out"
    artifact = library.compile(tmp_path / "mixed.onnx", target=target, output=output, dims={"n": DimRange(1, 3000)})
    assert artifact.report.fused
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    for size in (1, 5, 64, 257, 1030):
        given = ("--model", tmp_path / "mixed.onnx", "--device", "cuda", "--dim", f"n={size}")
        done = emulator.redfuser("verify", output, *given, capability=CAPABILITY[target])
        assert done.code == 0 and "PASSED" in done.output, done.output


def test_a_bundle_wants_sizes(bert: Path, tmp_path: Path) -> None:
    from redfuser.driver import bundle_model
    from redfuser.options import CompileOptions
    from redfuser.progress import Silent
    from redfuser.targets import load_target

    with pytest.raises(DynamicShapeError, match="'batch', 'length' of the model is open") as caught:
        bundle_model(bert, CompileOptions(load_target("h800")), tmp_path / "bundle", Silent())
    assert caught.value.hint == "give --dim batch=N --dim length=N"


@needs_compiler
@pytest.mark.parametrize("rows", [1, "m"], ids=["one-word", "prompt"])
@pytest.mark.parametrize(("target", "wanted"), [("h800", 264), ("a10", 144)])
def test_blocks_share_out_the_keys_of_a_decoder(
    target: str, wanted: int, rows: int | str, recorder: Recorder, tmp_path: Path
) -> None:
    build = Builder("decode")
    query, keys = ("batch", 2, rows, 64), ("batch", 2, "n", 64)
    q, k, v = build.input("q", query), build.input("k", keys), build.input("v", keys)
    scores = build.node("MatMul", q, build.node("Transpose", k, perm=[0, 1, 3, 2]))
    build.output(build.node("MatMul", build.node("Softmax", scores, axis=-1), v), query, name="o")
    onnx.save(build.model(), tmp_path / "decode.onnx")
    output, dims = tmp_path / "out", {"batch": DimRange(1, 4096), "n": DimRange(1, 65536)}
    artifact = library.compile(tmp_path / "decode.onnx", target=target, output=output, dims=dims, strict=True)
    assert [entry.strategy for entry in artifact.report.cascades] == ["multi-segment"]
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    for batch, size in ((1, 1), (3, 400), (70, 3)):
        sizes = {"batch": batch, "n": size, **({"m": 2} if rows == "m" else {})}
        given = ("--model", tmp_path / "decode.onnx", "--device", "cuda")
        asked = (word for name, number in sizes.items() for word in ("--dim", f"{name}={number}"))
        done = emulator.redfuser("verify", output, *given, *asked, capability=CAPABILITY[target])
        assert done.code == 0 and "PASSED" in done.output, done.output
        grids = {prod(event["grid"]) for event in done.of("launch")}
        assert grids == {2 * batch, 2 * batch * max(min(wanted // (2 * batch), 32), 1)}, "what merges, and segments"


def masked_decoder() -> onnx.ModelProto:
    """Keys and values of a past and a prompt, each of open length; a query sees the past, and no later key."""
    build = Builder("decoder", opset=23)
    new, past, both = ("batch", 2, "new", 64), ("batch", 2, "past", 64), ("batch", 2, "total", 64)
    inputs = [*(build.input(name, new) for name in "qkv"), "", *(build.input(f"past_{name}", past) for name in "kv")]
    outputs = build.nodes("Attention", *inputs, outputs=3, is_causal=1)
    for name, shape, value in zip(("y", "keys", "values"), (new, both, both), outputs, strict=True):
        build.output(value, shape, name=name)
    return build.model()


@needs_compiler
@pytest.mark.parametrize("target", CAPABILITY)
def test_a_decoder_looks_at_its_keys_only_where_its_prompt_is_long(
    target: str, recorder: Recorder, tmp_path: Path
) -> None:
    model, output = tmp_path / "decoder.onnx", tmp_path / "out"
    onnx.save(masked_decoder(), model)
    dims = {"batch": DimRange(1, 4), "new": DimRange(1, 2048), "past": DimRange(1, 8192)}
    artifact = library.compile(model, target=target, output=output, dims=dims, strict=True)
    assert [dict(entry.schedule).get("skip-hidden") for entry in artifact.report.cascades] == [64]
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    for new, past, launches in ((1, 300, 2), (40, 100, 2), (280, 20, 4)):
        asked = ("--dim", "batch=1", "--dim", f"new={new}", "--dim", f"past={past}")
        given = ("--model", model, "--device", "cuda", *asked)
        done = emulator.redfuser("verify", output, *given, capability=CAPABILITY[target])
        assert done.code == 0 and "PASSED" in done.output, done.output
        assert sum(event["kernel"].startswith("attention_0") for event in done.of("launch")) == launches


@needs_compiler
@pytest.mark.parametrize("target", CAPABILITY)
def test_products_of_bytes_of_open_rows_are_one_kernel(target: str, recorder: Recorder, tmp_path: Path) -> None:
    build, generator = Builder("integers"), np.random.default_rng(0)
    a = build.input("a", ("batch", "n", 96), "uint8")
    w = build.constant(generator.integers(-128, 128, (96, 72), dtype=np.int8))
    zeros = build.constant(np.uint8(131)), build.constant(np.int8(-3))
    build.output(build.node("MatMulInteger", a, w, *zeros), ("batch", "n", 72), "int32", name="sums")
    onnx.save(build.model(), tmp_path / "integers.onnx")
    output, dims = tmp_path / "out", {"batch": DimRange(1, 4), "n": DimRange(1, 300)}
    artifact = library.compile(tmp_path / "integers.onnx", target=target, output=output, dims=dims)
    assert len(artifact.report.products) == 1
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    for batch, size in ((1, 1), (3, 5), (1, 64), (2, 65)):
        given = ("--model", tmp_path / "integers.onnx", "--device", "cuda")
        sizes = ("--dim", f"batch={batch}", "--dim", f"n={size}")
        done = emulator.redfuser("verify", output, *given, *sizes, capability=CAPABILITY[target])
        assert done.code == 0 and "PASSED" in done.output, done.output
