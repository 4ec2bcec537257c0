"""How much memory of arrays that are gone stays with TVM where their sizes differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import redfuser
from redfuser.artifact import kept
from redfuser.artifact.kept import Kept, resident_bytes


def test_stores_are_emptied_at_new_sizes_once_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    resident, emptied = [100], []
    monkeypatch.setattr(kept, "resident_bytes", lambda: resident[0])
    monkeypatch.setattr(kept, "_empty_stores", lambda: emptied.append(resident[0]))
    model = Kept()
    model.before_call(((1, 2),))
    resident[0] += kept.KEPT_BYTES
    model.before_call(((2, 2),))
    resident[0] += 1
    model.before_call(((1, 2),))  # came before: what is kept may serve it
    assert not emptied
    model.before_call(((3, 2),))
    assert emptied == [resident[0]]
    model.before_call(((1, 2),))
    assert len(emptied) == 1


def test_sizes_that_differ_from_call_to_call_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept, "KEPT_BYTES", 64 << 20)
    text = '<ir_version: 8, opset_import: ["" : 18]>\ng (float[n,1024] x) => (float[n,1024] y) { y = Relu(x) }'
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    redfuser.compile(tmp_path / "model.onnx", output=tmp_path / "out")
    model = redfuser.load(tmp_path / "out")
    still = model({"x": np.ones((7, 1024), np.float32)})["y"]
    before = resident_bytes()
    for n in range(1000, 1200):  # 4 MB and more each, 880 MB together
        assert (model({"x": np.full((n, 1024), n, np.float32)})["y"] == n).all()
    assert resident_bytes() - before < 200 << 20
    assert (still == 1).all()
