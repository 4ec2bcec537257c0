"""Direct evaluation of a cascade."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cascade import reference
from tests.cascade.reference import evaluate_cascade
from tests.tile.build import Attention, Rows, random_inputs


def test_attention_by_hand() -> None:
    case = Attention()
    inputs = case.inputs()
    q, k, v = (inputs[name].astype(np.float64)[0] for name in "qkv")
    scores = q @ k.transpose(0, 2, 1) * 0.5 + inputs["mask"]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ v
    result = evaluate_cascade(case.cascade(), inputs)["out"]
    np.testing.assert_allclose(result[0].reshape(7, 2, 4).transpose(1, 0, 2), expected, rtol=1e-12)


def test_long_axes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cascade = Rows().layer_norm()
    inputs = random_inputs(cascade)
    whole = evaluate_cascade(cascade, inputs)["y0"]
    monkeypatch.setattr(reference, "_LIMIT", 30)
    np.testing.assert_allclose(evaluate_cascade(cascade, inputs)["y0"], whole, rtol=1e-12)


def test_stated_dtypes() -> None:
    cascade = Rows().softmax()
    assert evaluate_cascade(cascade, random_inputs(cascade), None)["y0"].dtype == np.float32
