"""What reports call a cascade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade, Output
from redfuser.expr import Tensor, load, op, pair
from tests.algebra.build import ITEM, ROW, Builder, attention, score, softmax, tensor
from tests.tile.build import Rows, quantised_product


def pooling() -> Cascade:
    """One column of values, weighted by probabilities."""
    build = Builder()
    _, total, weight = softmax(build, score())
    build.reduce("o", "sum", op("mul", op("div", weight, total), tensor("v", ITEM)))
    return build.build()


def temperature() -> Cascade:
    """A logsumexp of scaled scores: a product within the exponential weighs nothing."""
    build = Builder()
    softmax(build, op("mul", score(), tensor("scale", ROW)))
    return build.build()


def entropy() -> Cascade:
    """What is weighted is made of the scores themselves."""
    build = Builder()
    _, total, weight = softmax(build, score())
    build.reduce("h", "sum", op("mul", op("div", weight, total), score()))
    return build.build()


def chosen() -> Cascade:
    """A probability at a place that another tensor holds."""
    build = Builder()
    maximum, total, _ = softmax(build, score())
    picked = load(Tensor("s", (ROW.extent, ITEM.extent), "float32"), ROW, tensor("place", ROW, dtype="int64"))
    value = op("div", op("exp", op("sub", picked, maximum)), total)
    output = Output(Tensor("y", (ROW.extent,), "float32"), (ROW,), (ROW,), value)
    return replace(build.build(), outputs=(output,))


def routing() -> Cascade:
    build = Builder()
    maximum = build.reduce("m", "max", score())
    build.reduce("best", "max", pair(op("sub", score(), maximum), ITEM))
    return build.build()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (routing, "routing"),
        (attention, "attention"),
        (pooling, "attention"),
        (temperature, "logsumexp"),
        (entropy, "logsumexp"),
        (chosen, "softmax"),
        (Rows().softmax, "softmax"),
        (Rows().logsumexp, "logsumexp"),
        (Rows().layer_norm, "norm"),
        (Rows().variance, "moments"),
        (lambda: quantised_product(3, 24, 4), "quant_gemm"),
        (Rows().quantise, "other"),
    ],
)
def test_a_cascade_is_called_what_people_call_it(make: Callable[[], Cascade], kind: str) -> None:
    assert classify(make()) == kind
