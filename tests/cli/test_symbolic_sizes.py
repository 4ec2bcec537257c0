"""Symbolic dimensions on the command line."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from models.tiny_bert import BertShape, tiny_bert


@pytest.mark.slow
def test_a_range_of_sizes_is_compiled_verified_and_run(redfuser, tmp_path: Path) -> None:
    bert, output = tmp_path / "bert.onnx", tmp_path / "out"
    onnx.save(tiny_bert(BertShape(length=96, symbolic=True, layers=1)), bert)
    code, _, err = redfuser("compile", bert, "-o", output, "--dim", "batch=1:3", "--dim", "length=2:20", "-q")
    assert code == 0, err
    code, out, _ = redfuser("verify", output, "--model", bert, "-q")
    assert code == 0 and "(batch=1, length=2)" in out and "length=20)" in out
    code, out, _ = redfuser("run", output, "--dim", "length=9", "-q")
    assert code == 0 and ", 9, 64]" in out
    code, _, err = redfuser("run", output, "--dim", "length=21", "-q")
    assert code == 2 and "dimension 'length' of input 'input_ids' is 21; the module takes 2 to 20" in err
    assert "hint: compile with --dim length=2:21, if the model's tables reach" in err
