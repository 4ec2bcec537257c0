"""The whole compile: one attention through every stage as goldens, equal spellings, fallbacks, gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.attention import SPELLINGS, attention
from models.builder import Builder
from redfuser.algebra.derivation import Derivation
from redfuser.artifact.contents import CompiledModule
from redfuser.cascade.model import Cascade
from redfuser.driver import analyze_model, compile_model
from redfuser.options import CompileOptions
from redfuser.oracle.run import run_float64
from redfuser.progress import Silent
from redfuser.samples import random_inputs
from redfuser.targets import load_target
from tests.golden import Golden

#: Stages whose text doesn't depend on the machine; the target is fixed too.
STAGES = ("definitions", "cascades", "derivations", "tile-programs", "kernels")


@pytest.fixture
def options() -> CompileOptions:
    return CompileOptions(load_target("cpu-avx2"))


def save(folder: Path, name: str, **arguments: object) -> Path:
    """One attention model as a file."""
    path = folder / f"{name}.onnx"
    path.write_bytes(attention(**arguments).SerializeToString())  # type: ignore[arg-type]
    return path


def run(compiled: CompiledModule, folder: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Link the module and run it."""
    import tvm
    from tvm import relax

    library = folder / "module.so"
    compiled.module_writer(library)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(feeds[spec.name]) for spec in compiled.inputs))
    results = [result] if hasattr(result, "numpy") else list(result)
    return {spec.name: value.numpy() for spec, value in zip(compiled.outputs, results, strict=True)}


def test_one_attention_through_every_stage(tmp_path: Path, options: CompileOptions, golden: Golden) -> None:
    path = save(tmp_path, "attention", spelling="sdpa", heads=2, q_len=20, kv_len=24, head_dim=8, mask="boolean")
    compiled = compile_model(path, options, Silent())
    for stage in STAGES:
        golden.check(f"attention/{stage}.txt", str(compiled.dump[stage]))
    (entry,) = compiled.report.cascades
    assert (entry.kind, entry.verdict, entry.strategy) == ("attention", "fused", "single-segment")
    assert entry.error is not None and entry.error.passed


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_fuses_and_agrees_with_float64(spelling: str, tmp_path: Path, options: CompileOptions) -> None:
    path = save(tmp_path, spelling, spelling=spelling, batch=2, heads=4, q_len=9, kv_len=13, head_dim=8, mask="boolean")
    compiled = compile_model(path, options, Silent())
    assert compiled.report.kinds(fused_only=True) == {"attention": 1}
    feeds = random_inputs(compiled.inputs, seed=1)
    expected = run_float64(
        attention(spelling=spelling, batch=2, heads=4, q_len=9, kv_len=13, head_dim=8, mask="boolean"), feeds
    )
    for name, value in run(compiled, tmp_path, feeds).items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-6)


def test_equal_layers_share_one_kernel(options: CompileOptions) -> None:
    compiled = compile_model(Path("models/tiny_bert.onnx"), options, Silent())
    fused = [entry.id for entry in compiled.report.cascades if entry.kind == "attention"]
    kernels = [kernel.name for kernel in compiled.kernels if kernel.name.startswith("attention")]
    assert len(fused) == 2 and len(kernels) == 1


def test_a_hundred_equal_cascades_are_derived_once(
    tmp_path: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redfuser.algebra import deriver

    derived: list[Cascade] = []
    real = deriver.derive_cascade

    def counting(cascade: Cascade, relaxed: bool = False) -> Derivation:
        derived.append(cascade)
        return real(cascade, relaxed)

    monkeypatch.setattr(deriver, "derive_cascade", counting)
    build = Builder("softmaxes")
    for number in range(100):
        value = build.node("Softmax", build.input(f"x{number}", (4, 16)), axis=-1)
        build.output(value, (4, 16), name=f"y{number}")
    path = tmp_path / "softmaxes.onnx"
    path.write_bytes(build.model().SerializeToString())
    report = analyze_model(path, options, Silent())
    assert report.kinds(fused_only=True) == {"softmax": 100}
    assert len(derived) == 1


def test_analysis_says_the_same_as_the_compile(tmp_path: Path, options: CompileOptions) -> None:
    path = save(tmp_path, "eager", spelling="eager")
    analysed = analyze_model(path, options, Silent())
    compiled = compile_model(path, options, Silent()).report
    pairs = zip(analysed.cascades, compiled.cascades, strict=True)
    assert all((a.id, a.verdict, a.strategy) == (c.id, c.verdict, c.strategy) for a, c in pairs)


def test_failed_generation_falls_back_with_its_reason(
    tmp_path: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redfuser.codegen.cpu as cpu

    def broken(*_: object) -> None:
        raise ValueError("no registers left")

    monkeypatch.setattr(cpu, "generate", broken)
    path = save(tmp_path, "eager", spelling="eager")
    compiled = compile_model(path, options, Silent())
    (entry,) = compiled.report.cascades
    assert entry.verdict == "unfused" and entry.reason is not None
    assert entry.reason.code == "generation-failed" and "no registers left" in entry.reason.witness
    feeds = random_inputs(compiled.inputs, seed=1)
    assert all(np.isfinite(v).all() for v in run(compiled, tmp_path, feeds).values())
