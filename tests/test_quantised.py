"""A whole model as onnxruntime.quantization writes it: all of it fuses, products are of bytes, numbers agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

import redfuser
from redfuser.oracle import run_float64, run_onnxruntime

MODEL = Path(__file__).parents[1] / "models" / "tiny_bert.onnx"
Feeds = dict[str, np.ndarray]


def random_feeds(seed: int) -> Feeds:
    ids = np.random.default_rng(seed).integers(0, 32, (1, 32))
    return {"input_ids": ids, "attention_mask": (np.arange(32) < 32 - 3 * seed).astype(np.int64)[None]}


class Calibration:
    """A few random inputs, one at a call."""

    def __init__(self) -> None:
        self.left: Iterator[Feeds] = map(random_feeds, range(4))

    def get_next(self) -> Feeds | None:
        return next(self.left, None)


def dynamically(path: Path) -> None:
    quantize_dynamic(MODEL, path, weight_type=QuantType.QInt8)


def statically(form: QuantFormat, by_channel: bool) -> Callable[[Path], None]:
    def quantise(path: Path) -> None:
        kinds = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8}
        quantize_static(MODEL, path, Calibration(), quant_format=form, per_channel=by_channel, **kinds)

    return quantise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantise", "kinds"),
    [
        (dynamically, {"attention": 2, "norm": 5, "quant": 8}),
        (statically(QuantFormat.QDQ, False), {"attention": 2, "norm": 5}),
        (statically(QuantFormat.QDQ, True), {"attention": 2, "norm": 5}),
        (statically(QuantFormat.QOperator, False), {"attention": 2, "norm": 5}),
    ],
)
def test_a_quantised_model(quantise: Callable[[Path], None], kinds: dict[str, int], tmp_path: Path) -> None:
    path, feeds = tmp_path / "model.onnx", random_feeds(9)
    quantise(path)
    artifact = redfuser.compile(path, output=tmp_path / "out", strict=True)
    found = [cascade.kind for cascade in artifact.report.cascades]
    assert {kind: found.count(kind) for kind in kinds} == kinds and artifact.report.fused == len(found)
    (got,) = redfuser.load(tmp_path / "out")(feeds).values()
    proto = onnx.load(path)
    (exact,), (peer,) = (run(proto, feeds).values() for run in (run_float64, lambda *a: run_onnxruntime(*a, 1)))
    # Roundings fall otherwise here and there; a step that falls one way everywhere is far more than that.
    error, others = (np.sqrt(np.mean((value - exact) ** 2)) for value in (got, peer))
    assert error <= 2 * others + 0.005 * np.sqrt(np.mean(exact**2))
