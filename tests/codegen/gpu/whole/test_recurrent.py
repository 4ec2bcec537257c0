"""Recurrent layers for a GPU, run by the emulator launch by launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import redfuser as library
from tests.codegen.gpu.whole.recording import Recorder
from tests.emulator.artifact import emulating, sources_of
from tests.emulator.library import needs_compiler
from tests.recurrent.build import layer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toolchain")]


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LSTM", {"direction": "bidirectional", "given": ("bias", "hidden", "peepholes")}),
        ("GRU", {"direction": "reverse"}),
        ("GRU", {"linear_before_reset": 1, "given": ("bias", "hidden")}),
        ("RNN", {}),
    ],
)
def test_its_launches_compute_the_layer(
    kind: str, attributes: dict[str, Any], recorder: Recorder, tmp_path: Path
) -> None:
    model, _ = layer(kind, 6, 3, 16, 40, open_sizes=True, **attributes)
    path, output = tmp_path / "layer.onnx", tmp_path / "out"
    onnx.save(model, path)
    library.compile(path, target="h800", output=output)
    emulator = emulating(sources_of(output), recorder, tmp_path / "emulation")
    sizes = ("--dim", "steps=7", "--dim", "batch=3")
    done = emulator.redfuser("verify", output, "--model", path, "--device", "cuda", *sizes)
    assert done.code == 0 and "PASSED" in done.output, done.output
    assert [event["grid"][0] for event in done.of("launch") if event["kernel"].startswith("recurrent")][:1] == [3]
