"""Inputs to try a model on."""

from __future__ import annotations

import numpy as np

from redfuser.samples import random_inputs
from redfuser.signature import TensorSpec


def test_random_inputs_are_plausible() -> None:
    specs = [
        TensorSpec("input_ids", (4, 16), "int64"),
        TensorSpec("attention_mask", (4, 16), "int64"),
        TensorSpec("token_type_ids", (4, 16), "int64"),
        TensorSpec("position_ids", (4, 16), "int64"),
        TensorSpec("pixels", (2, 3), "float16"),
        TensorSpec("flag", (), "bool"),
        TensorSpec("scaled", (3,), "bfloat16"),
    ]
    feeds = random_inputs(specs, 0)
    assert all(str(feeds[s.name].dtype) == s.dtype and feeds[s.name].shape == s.shape for s in specs)
    assert feeds["input_ids"].min() >= 0 and feeds["input_ids"].max() < 32
    assert feeds["attention_mask"][:, 0].all() and not feeds["attention_mask"].all()
    assert set(np.unique(feeds["token_type_ids"])) <= {0, 1}
    assert feeds["position_ids"][1].tolist() == list(range(16))


def test_random_inputs_depend_on_the_seed_alone() -> None:
    specs = [TensorSpec("x", (3,), "float32")]
    assert np.array_equal(random_inputs(specs, 1)["x"], random_inputs(specs, 1)["x"])
    assert not np.array_equal(random_inputs(specs, 1)["x"], random_inputs(specs, 2)["x"])
