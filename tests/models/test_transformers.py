"""Builders of whole transformers: valid, finite, deterministic, and compiled within the accuracy rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import redfuser
from models.transformers import bert, gpt2, vit
from redfuser.bench.workload import load_workload
from redfuser.oracle.run import run_float64
from redfuser.progress import Silent
from redfuser.samples import random_inputs
from redfuser.verification import compare_with_oracle
from tests.models.test_models import specs

#: One layer each, with lengths that are no whole vectors; the image has 10 tokens.
SMALL: dict[str, Callable[[], ModelProto]] = {
    "bert": lambda: bert(layers=1, hidden=96, heads=2, batch=2, tokens=21, vocabulary=50),
    "gpt2": lambda: gpt2(layers=1, hidden=96, heads=2, batch=2, tokens=21, vocabulary=50),
    "vit": lambda: vit(layers=1, hidden=96, heads=2, batch=2, pixels=48, classes=10),
    "gpt2-bfloat16": lambda: gpt2(layers=1, hidden=96, heads=2, batch=2, tokens=21, vocabulary=50, dtype="bfloat16"),
    "bert-float16": lambda: bert(layers=1, hidden=96, heads=2, batch=2, tokens=21, vocabulary=50, dtype="float16"),
}


@pytest.mark.parametrize("name", SMALL)
def test_models_are_valid_finite_and_the_same_each_time(name: str) -> None:
    proto = SMALL[name]()
    onnx.checker.check_model(proto, full_check=True)
    assert proto.SerializeToString(deterministic=True) == SMALL[name]().SerializeToString(deterministic=True)
    for value in run_float64(proto, random_inputs(specs(proto), 0)).values():
        assert np.isfinite(value).all()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_padding_is_not_seen(name: str) -> None:
    proto = SMALL[name]()
    feeds = random_inputs(specs(proto), 0)
    seen = feeds["attention_mask"].astype(bool)
    (first,) = run_float64(proto, feeds).values()
    feeds["input_ids"][~seen] += 1
    (second,) = run_float64(proto, feeds).values()
    assert not seen.all() and np.allclose(first[seen], second[seen])


def test_tokens_see_none_that_follow() -> None:
    proto = gpt2(layers=1, hidden=96, heads=2, tokens=21, vocabulary=50)
    feeds = {"input_ids": np.arange(21)[None], "attention_mask": np.ones((1, 21), np.int64)}
    logits = run_float64(proto, feeds)["logits"]
    feeds["input_ids"][0, 12] = 40
    changed = run_float64(proto, feeds)["logits"] != logits
    assert not changed[0, :12].any() and changed[0, 12:].any(axis=-1).all()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "gpt2" else pytest.mark.slow) for name in SMALL]
)
def test_compiled_models_meet_the_accuracy_rule(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(SMALL[name]().SerializeToString())
    artifact = redfuser.compile(path, output=tmp_path / "out")
    assert artifact.report.kinds(fused_only=True) == artifact.report.kinds()
    assert artifact.report.kinds()["attention"] == 1
    feeds = random_inputs(artifact.manifest.inputs, seed=0)
    for output in compare_with_oracle(artifact.path, path, [({}, feeds)], 2, Silent()):
        assert output.accuracy.passed, str(output)


def test_the_workload_has_sizes_of_each() -> None:
    names = [case.name for case in load_workload("models").cases]
    assert {"bert-base-8x512", "gpt2-small-1x128", "vit-b-16-8"} <= set(names)
    assert not any(case.whole for case in load_workload("models").cases)
