"""Blocks of a transformer in bytes, of com.microsoft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused
from tests.frontend.normalising.contributed.test_q_linear import KINDS, random_bytes

BATCH, LENGTH, WIDTH, HEADS = 2, 5, 12, 3
WEIGHTS = ["w", "w_scale", "w_zero", "b"]


def attention(kind: type = np.int8, columns: bool = False, **more: np.ndarray | None) -> dict[str, np.ndarray | None]:
    """Inputs of QAttention."""
    several = 3 * WIDTH if columns else None
    inputs: dict[str, np.ndarray | None] = {
        "x": random_bytes(BATCH, LENGTH, WIDTH, seed=1),
        "w": random_bytes(WIDTH, 3 * WIDTH, kind=kind, seed=2),
        "b": normal(3 * WIDTH),
        "x_scale": np.asarray(0.01, np.float32),
        "w_scale": np.full(several or (), 0.008, np.float32),
        "mask": None,
        "x_zero": np.asarray(120, np.uint8),
        "w_zero": np.full(several or (), 3, kind),
        "past": None,
    }
    return {**inputs, **more}


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (attention(), {}),
        (attention(np.uint8), {"unidirectional": 1}),
        (attention(columns=True), {"scale": 0.5}),
        (attention(mask=np.asarray([3, 5], np.int32)), {}),
        (attention(mask=np.asarray([[1, 1, 0, 1, 0], [1] * 5], np.int32)), {"mask_filter_value": -100.0}),
        (attention(x_zero=None, w_zero=None), {}),
        (attention(w_zero=None), {}),
    ],
    ids=["plain", "causal", "columns", "lengths", "mask", "no zero points", "one zero point"],
)
def test_attention_of_bytes(inputs: Inputs, attributes: dict[str, object]) -> None:
    agree(*contributed("QAttention", inputs, ["y"], WEIGHTS, num_heads=HEADS, **attributes), tolerance=1e-4)


def test_its_past_and_present() -> None:
    past = normal(2, BATCH, HEADS, 4, WIDTH // HEADS)
    proto, feeds = contributed(
        "QAttention", attention(past=past), ["y", "present"], WEIGHTS, num_heads=HEADS, unidirectional=1
    )
    exact = agree(proto, feeds, tolerance=1e-4)
    assert exact["present"].shape == (2, BATCH, HEADS, 4 + LENGTH, WIDTH // HEADS)


def test_it_is_fused(tmp_path: Path) -> None:
    proto, _ = contributed("QAttention", attention(), ["y"], WEIGHTS, num_heads=HEADS)
    assert fused(proto, tmp_path) == ["attention"]


def test_other_attentions_are_refused() -> None:
    proto, feeds = contributed("QAttention", attention(), ["y"], WEIGHTS, num_heads=HEADS, do_rotary=1)
    refused(proto, feeds, "the attribute do_rotary")
    proto, feeds = contributed(
        "QAttention", attention(x_scale=np.full(3, 0.1, np.float32)), ["y"], WEIGHTS, num_heads=HEADS
    )
    refused(proto, feeds, "several scales or zero points of the input")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("segmented", "masked"), [(True, True), (False, False)])
def test_embeddings_of_bytes(segmented: bool, masked: bool, kind: type) -> None:
    rng = np.random.default_rng(4)
    ids, kinds = (rng.integers(0, high, (BATCH, LENGTH), np.int32) for high in (20, 2))
    shapes = {"word": (20, WIDTH), "place": (9, WIDTH), "kind": (2, WIDTH), "gamma": (WIDTH,), "beta": (WIDTH,)}
    tables = {name: random_bytes(*shape, kind=kind, seed=len(name)) for name, shape in shapes.items()}
    scales = {f"{name}_scale": np.asarray(0.01 + 0.003 * len(name), np.float32) for name in tables}
    zeros = {f"{name}_zero": np.asarray(40 + len(name), kind) for name in tables}
    mask = (kinds > 0).astype(np.int32) if masked else None
    inputs = {"ids": ids, "kinds": kinds, **tables, "mask": mask, **scales, **zeros}
    if not segmented:
        inputs |= dict.fromkeys(name for name in inputs if name.startswith("kind"))
    proto, feeds = contributed("QEmbedLayerNormalization", inputs, ["y", "counts"], [*tables, *scales, *zeros])
    agree(proto, feeds, tolerance=1e-4)
