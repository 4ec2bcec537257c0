"""Values that tests of several rooms share."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import settings

from redfuser.artifact.contents import CompiledModule
from redfuser.artifact.write import write_artifact
from redfuser.options import CompileOptions
from redfuser.reason import Reason
from redfuser.report.derivation_entries import (
    DerivationEntry,
    ProofEntry,
    RecurrenceEntry,
    ReductionEntry,
    StateEntry,
    WitnessEntry,
)
from redfuser.report.value import CascadeEntry, FusionReport, ModelInfo, NumericError, TargetInfo, Time, Traffic
from redfuser.signature import TensorSpec
from redfuser.targets import load_target
from tests.golden import Golden

# The usual examples are always the same ones. The long profile looks for new ones; --hypothesis-seed repeats a run.
settings.register_profile("usual", max_examples=700, derandomize=True)
settings.register_profile("long", max_examples=20_000)
settings.load_profile("usual")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate-goldens", action="store_true", help="write tests/goldens instead of comparing")


@pytest.fixture(autouse=True)
def _same_numbers(request: pytest.FixtureRequest) -> None:
    """What a test draws at random doesn't depend on which tests ran before it."""
    for generator in _generators(request.module):
        generator.bit_generator.state = np.random.default_rng(1).bit_generator.state


@cache
def _generators(module: ModuleType) -> tuple[np.random.Generator, ...]:
    """Those that a test module holds, and those behind the functions that it takes from other modules of tests."""
    values = list(vars(module).values())
    for value in vars(module).values():
        if getattr(value, "__module__", "").startswith("tests."):
            values += getattr(value, "__globals__", {}).values()
    return tuple({id(value): value for value in values if isinstance(value, np.random.Generator)}.values())


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares texts with the files under ``tests/goldens``."""
    return Golden(bool(request.config.getoption("--regenerate-goldens")))


@pytest.fixture
def corpus() -> Path:
    """The folder of real and exported models that lies beside the repository; skips without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of models isn't here")
    return folder


@pytest.fixture
def fused_entry() -> CascadeEntry:
    """A softmax that was fused."""
    return CascadeEntry(
        id="cascade_0",
        kind="softmax",
        verdict="fused",
        reason=None,
        onnx_nodes=("/layer.0/Softmax",),
        reductions=(
            ReductionEntry("m", "max", ("row<4",), "k<512", "x[row, k]"),
            ReductionEntry("t", "sum", ("row<4",), "k<512", "exp((x[row, k] - m[row]))"),
        ),
        derivation=DerivationEntry(
            form="rank-1",
            recurrences=(
                RecurrenceEntry(
                    *("m", "m = max_k x", "·", (), None, ()),
                    *((StateEntry("m", "max", "−∞", "x"),), "max(m, −1e+30)", "m"),
                ),
                RecurrenceEntry(
                    *("t", "t = Σ_k exp(x − m)", "·", ("exp(x)",), "exp(−m)", (("exp(m′ − m)",),)),
                    *((StateEntry("t", "sum", "0", "exp(x − m̃)", ("exp(m′ − m̃)",)),), None, "t·exp(m̃ − m)"),
                ),
            ),
            proofs=(ProofEntry("t: F = G·H", "pivot"),),
            witnesses=(WitnessEntry("random", 13, 2.2e-16), WitnessEntry("all -inf", 13, 0.0)),
        ),
        exactness="exact",
        strategy="single-segment",
        schedule={"rows": 4, "tile": 64},
        traffic=Traffic(8192, 16, 24576, 16416, 10240),
        time=Time(12.5, "modelled"),
        error=NumericError(1.25e-7, 1.5e-7, 4.5e-7, True),
    )


@pytest.fixture
def missed_entry() -> CascadeEntry:
    """A candidate that was not fused."""
    return CascadeEntry(
        id="cascade_1",
        kind="other",
        verdict="unfused",
        reason=Reason("not-finite-rank", "the map mixes the element and an earlier result", "tanh((x[k] - m))"),
        onnx_nodes=("evil\x1b[2J<script>|`name`\u202e",),
        reductions=(ReductionEntry("s", "sum", (), "k<8", "tanh((x[k] - m))"),),
    )


@pytest.fixture
def report(fused_entry: CascadeEntry, missed_entry: CascadeEntry) -> FusionReport:
    """One fused and one missed cascade."""
    return FusionReport(
        model=ModelInfo("tiny.onnx", "ab" * 32, 18, 42, (TensorSpec("x", (4, 512), "float32"),)),
        target=TargetInfo("cpu-avx2", "cpu", "x86-64-v3", (), 4),
        cascades=(fused_entry, missed_entry),
    )


def write_doubling_module(path: Path) -> None:
    """``double = x + x`` and ``same = n``, by TVM alone."""
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    n = relax.Var("n", relax.TensorStructInfo((), "int64"))
    with builder.function("main", [x, n]):
        total = builder.emit(relax.op.add(x, x))
        builder.emit_func_output(relax.Tuple([total, n]))
    target = tvm.target.Target(load_target("cpu-x86-64").llvm())
    tvm.relax.build(relax.transform.LegalizeOps()(builder.get()), target).export_library(str(path))


@pytest.fixture(scope="session")
def doubling_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ONNX file of :func:`write_doubling_module`'s function."""
    from onnx import TensorProto, helper

    x, n = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]), helper.make_tensor_value_info("n", 7, [])
    outputs = [helper.make_tensor_value_info("double", 1, [2, 3]), helper.make_tensor_value_info("same", 7, [])]
    nodes = [helper.make_node("Add", ["x", "x"], ["double"]), helper.make_node("Identity", ["n"], ["same"])]
    graph = helper.make_graph(nodes, "doubling", [x, n], outputs)
    path = tmp_path_factory.mktemp("model") / "doubling.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="session")
def artifact(doubling_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module with two inputs and two outputs, written as an artifact."""
    output = tmp_path_factory.mktemp("artifact") / "doubling.redfuser"
    target = load_target("cpu-x86-64")
    digest = hashlib.sha256(doubling_model.read_bytes()).hexdigest()
    report = FusionReport(ModelInfo("doubling.onnx", digest, 18, 2), TargetInfo(target.name, "cpu", "x86-64"), ())
    inputs = (TensorSpec("x", (2, 3), "float32"), TensorSpec("n", (), "int64"))
    outputs = (TensorSpec("double", (2, 3), "float32"), TensorSpec("same", (), "int64"))
    compiled = CompiledModule(report, (), write_doubling_module, inputs, outputs, "")
    write_artifact(compiled, CompileOptions(target), output)
    return output
