"""What reports call a cascade."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade
from redfuser.expr import op, pair
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
