"""Differences from a mean, in singles, on rows where they cancel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import redfuser
from redfuser.artifact.load import LoadedModel

WIDTH = 384
TEXT = f"""<ir_version: 8, opset_import: ["" : 18]>
g (float[8,{WIDTH}] x, float[{WIDTH}] g, float[{WIDTH}] b) => (float[8,{WIDTH}] y)
    {{ y = LayerNormalization<axis=-1>(x, g, b) }}"""


@pytest.fixture(scope="module")
def layer_norm(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("centres")
    onnx.save(parser.parse_model(TEXT), folder / "norm.onnx")
    artifact = redfuser.compile(folder / "norm.onnx", output=folder / "norm")
    assert artifact.report.fused
    return redfuser.load(folder / "norm")


def hard_rows() -> dict[str, np.ndarray]:
    base = np.random.default_rng(0).standard_normal((8, WIDTH))
    place = np.arange(WIDTH)
    return {
        "around zero": base,
        "a mean of 1e3": base + 1e3,
        "a mean of 1e6": base + 1e6,
        "a mean of 1e7": 3 * base + 1e7,
        "few steps of the last digit": 1e6 + 0.0625 * (base > 2),
        "an outlier first": np.where(place == 0, 1e6, base),
        "an outlier in the middle": np.where(place == (WIDTH - 1) // 2, -1e6, base),
        "an outlier last": np.where(place == WIDTH - 1, 1e3, base),
        "nothing but an outlier": np.where(place == 0, 1.0, 0 * base),
        "equal": np.full((8, WIDTH), 1234.567),
    }


@pytest.mark.parametrize("name", hard_rows())
def test_norms_of_hard_rows(layer_norm: LoadedModel, name: str) -> None:
    x = hard_rows()[name].astype(np.float32)
    exact = normalised(x.astype(np.float64))
    error = run(layer_norm, x) - exact
    assert np.sqrt((error**2).mean()) <= 3e-7 * np.sqrt((exact**2).mean())


def test_what_is_not_finite_stays_in_its_row(layer_norm: LoadedModel) -> None:
    x = hard_rows()["around zero"].astype(np.float32)
    x[0, 0], x[1, 5], x[2, 0], x[3, -1], x[4, WIDTH // 2] = np.inf, np.inf, np.nan, -np.inf, np.nan
    got = run(layer_norm, x)
    assert np.isnan(got[:5]).all() and np.isfinite(got[5:]).all()
    x = np.where(np.arange(WIDTH) % 2, 3e38, -3e38).astype(np.float32) * np.ones((8, 1), np.float32)
    assert (run(layer_norm, x) == 0).all()  # the variance is infinite, as it is unfused; the mean isn't


def run(model: LoadedModel, x: np.ndarray) -> np.ndarray:
    return model({"x": x, "g": np.ones(WIDTH, np.float32), "b": np.zeros(WIDTH, np.float32)})["y"]


def normalised(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
