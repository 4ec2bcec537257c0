"""Layers that differ in numbers alone share one kernel, unless a proof needs the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import redfuser
import redfuser.driver
from redfuser.cascade.model import Cascade
from redfuser.driver import analyze, analyze_model
from redfuser.options import CompileOptions
from redfuser.oracle.run import run_float64
from redfuser.progress import Silent
from redfuser.reason import Reason
from redfuser.stages.fusion import Outcome
from redfuser.stages.sharing import share
from redfuser.targets import load_target
from redfuser.tuning.record import read_lock

ROWS, LENGTH = 5, 64


class Notes(Silent):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Kept."""
        self.notes.append(text)


@pytest.fixture
def options() -> CompileOptions:
    return CompileOptions(load_target("cpu"))


def saved(path: Path, layers: Sequence[str], output: str) -> Path:
    """A model in which each layer makes ``yN`` of ``xN``; ``N`` stands for its number."""
    numbers = range(len(layers))
    inputs = ", ".join(f"float[{ROWS}, {LENGTH}] x{n}" for n in numbers)
    outputs = ", ".join(f"{output} y{n}" for n in numbers)
    body = "\n".join(layer.replace("N", str(n)) for n, layer in enumerate(layers))
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}) => ({outputs}) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def quantised_softmaxes(path: Path, *numbers: tuple[float, int]) -> Path:
    """Softmaxes, each quantised with its own scale and zero point."""
    layers = [
        f"""sN = Constant<value = float {{{scale}}}> ()
        zN = Constant<value = uint8 {{{zero}}}> ()
        pN = Softmax<axis = -1> (xN)
        yN = QuantizeLinear (pN, sN, zN)"""
        for scale, zero in numbers
    ]
    return saved(path, layers, f"uint8[{ROWS}, {LENGTH}]")


def scaled_maxima(path: Path, *factors: float) -> Path:
    """``max(x · exp(max x) · factor)``: only a factor that isn't negative may be taken out of the maximum."""
    layers = [
        f"""fN = Constant<value = float {{{factor}}}> ()
        axesN = Constant<value = int64[1] {{1}}> ()
        mN = ReduceMax<keepdims = 1> (xN, axesN)
        eN = Exp (mN)
        hN = Mul (eN, fN)
        wN = Mul (xN, hN)
        yN = ReduceMax<keepdims = 1> (wN, axesN)"""
        for factor in factors
    ]
    return saved(path, layers, f"float[{ROWS}, 1]")


def scaled_softmaxes(path: Path, *factors: float) -> Path:
    """Softmaxes of scores in units of their scale."""
    layers = [
        f"""fN = Constant<value = float {{{factor}}}> ()
        scoresN = Mul (xN, fN)
        yN = Softmax<axis = -1> (scoresN)"""
        for factor in factors
    ]
    return saved(path, layers, f"float[{ROWS}, {LENGTH}]")


def centred(path: Path, *factors: float) -> Path:
    """``Σ (x - factor · Σ x)²``: what is subtracted is kept to more than single precision where it is a mean."""
    layers = [
        f"""fN = Constant<value = float {{{factor}}}> ()
        axesN = Constant<value = int64[1] {{1}}> ()
        sN = ReduceSum<keepdims = 1> (xN, axesN)
        mN = Mul (sN, fN)
        dN = Sub (xN, mN)
        qN = Mul (dN, dN)
        yN = ReduceSum<keepdims = 1> (qN, axesN)"""
        for factor in factors
    ]
    return saved(path, layers, f"float[{ROWS}, 1]")


def check(artifact: redfuser.Artifact, path: Path) -> None:
    """Every output is what float64 says."""
    model = onnx.load(path)
    random = np.random.default_rng(0)
    feeds = {i.name: random.standard_normal((ROWS, LENGTH)).astype(np.float32) for i in model.graph.input}
    expected = run_float64(model, feeds)
    for name, value in artifact.load()(feeds).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)


def kernels(artifact: redfuser.Artifact) -> list[str]:
    return sorted(folder.name for folder in (artifact.path / "kernels").iterdir())


def test_quantised_layers_share_a_kernel_and_each_gets_its_answer(tmp_path: Path) -> None:
    path, notes = quantised_softmaxes(tmp_path / "m.onnx", (0.004, 3), (0.0055, 100), (0.0055, 3)), Notes()
    artifact = redfuser.compile(path, output=tmp_path / "out", strict=True, progress=notes)
    assert kernels(artifact) == ["softmax_0"] and not notes.notes
    check(artifact, path)


@pytest.mark.parametrize("model", [scaled_softmaxes, scaled_maxima])
def test_the_report_gives_the_numbers_of_each_place(model: Any, tmp_path: Path, options: CompileOptions) -> None:
    path = model(tmp_path / "m.onnx", -0.5, -0.25)
    assert len(share(analyze(path, options, Silent()), options, {}, Silent()).distinct()) == 1
    first, second = analyze_model(path, options, Silent()).cascades
    for entry, factor, other in ((first, "0.5", "0.25"), (second, "0.25", "0.5")):
        for text in (entry.reductions[-1].map, str(entry.derivation)):
            assert f"−{factor}" in text and other not in text


def test_a_lock_pins_the_kernel_that_layers_share(tmp_path: Path) -> None:
    path = quantised_softmaxes(tmp_path / "m.onnx", (0.004, 3), (0.0055, 100))
    first = redfuser.compile(path, output=tmp_path / "first")
    # Other numbers, the same kernel.
    again = quantised_softmaxes(tmp_path / "n.onnx", (0.003, 7), (0.0065, 90))
    options = CompileOptions(load_target("cpu"), lock=read_lock(tmp_path / "first"), locked=True)
    report = redfuser.driver.compile_model(again, options, Silent()).report
    assert first.report.fused == report.fused == 2
    assert all(entry.choice is not None and entry.choice.locked for entry in report.cascades)


@pytest.mark.parametrize(
    ("model", "what", "witness"),
    [(scaled_maxima, "derivation", "rank-1, exact where they are known"), (centred, "precision", "'float64'")],
)
def test_layers_of_which_the_numbers_are_needed_stay_apart(model: Any, what: str, witness: str, tmp_path: Path) -> None:
    path, notes = model(tmp_path / "m.onnx", 0.5, 0.25), Notes()
    artifact = redfuser.compile(path, output=tmp_path / "out", strict=True, progress=notes)
    assert len(kernels(artifact)) == 2
    (note,) = notes.notes
    assert "share no kernel: numbers-needed" in note and f"the {what} depends" in note and witness in note
    check(artifact, path)


def test_one_layer_that_needs_its_number_keeps_all_apart(tmp_path: Path, options: CompileOptions) -> None:
    """A negative factor is as good unknown; the positive one beside it isn't."""
    notes = Notes()
    analysis = analyze(scaled_maxima(tmp_path / "m.onnx", -0.5, 0.25), options, Silent())
    assert len(share(analysis, options, {}, notes).distinct()) == 2
    assert "numbers-needed" in notes.notes[0]


def test_layers_whose_common_kernel_fails_get_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, reason = redfuser.driver.fuse, Reason("made-up", "no kernel takes its scale")

    def fuse(cascade: Cascade, *arguments: Any) -> Outcome:
        outcome = real(cascade, *arguments)
        return replace(outcome, record=None, kernel=None, reason=reason) if cascade.normal else outcome

    monkeypatch.setattr(redfuser.driver, "fuse", fuse)
    path, notes = quantised_softmaxes(tmp_path / "m.onnx", (0.004, 3), (0.0055, 100)), Notes()
    artifact = redfuser.compile(path, output=tmp_path / "out", strict=True, progress=notes)
    assert kernels(artifact) == ["softmax_0", "softmax_1"] and artifact.report.fused == 2
    assert [("own numbers" in note, "made-up" in note) for note in notes.notes] == [(True, True)] * 2
    check(artifact, path)


def test_a_model_without_such_layers_stays_as_it_is(options: CompileOptions) -> None:
    analysis, notes = analyze(Path("models/tiny_bert.onnx"), options, Silent()), Notes()
    shared = share(analysis, options, {}, notes)
    assert shared.canonical == analysis.canonical and shared.values == analysis.values and not notes.notes
