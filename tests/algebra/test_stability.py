"""Data far from zero in single precision: folding and merging measure no worse from the mean than two passes do."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, Tensor, axis, load, number, op
from redfuser.stages.fusion import with_precision
from tests.algebra.build import ROW, ROWS, Builder

LENGTH = 1024
LONG = axis("l", LENGTH)
X = load(Tensor("x", (ROWS, LENGTH), "float32"), ROW, LONG)
#: segments of tiles: a stream, a stream of single elements, eight segments, segments of unequal length
CUTS = (
    [[range(n, n + 64) for n in range(0, LENGTH, 64)]],
    [[range(n, n + 1) for n in range(LENGTH)]],
    [[range(n, n + 32) for n in range(s, s + 128, 32)] for s in range(0, LENGTH, 128)],
    [[range(1)], [range(1, 1000)], [range(1000, LENGTH)]],
)


def central_moment(power: int) -> Cascade:
    build = Builder(LONG)
    mean = op("div", build.reduce("r", "sum", X), number(float(LENGTH), "float32"))
    element: Expr = op("sub", X, mean)
    for _ in range(power - 1):
        element = op("mul", element, op("sub", X, mean))
    build.reduce("c", "sum", element)
    return build.build()


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("power", [2, 4])
def test_moments_about_a_large_mean(power: int, mean: float) -> None:
    cascade = central_moment(power)
    precise = with_precision(cascade)
    derivation = derive(precise)
    x = (np.random.default_rng(5).normal(size=(ROWS, LENGTH)) + mean).astype(np.float32)
    tensors = {cascade.inputs[0]: x}
    exact = direct(cascade, tensors)[cascade.reductions[1].result]
    two_pass = np.abs(direct(cascade, tensors, None)[cascade.reductions[1].result] - exact)
    replay = Replay(precise, derivation, tensors, None)
    for segments in CUTS:
        found = replay.run(segments)[precise.reductions[1].result].astype(np.float32)
        assert np.isfinite(found).all()
        assert np.all(np.abs(found - exact) <= two_pass + 1e-6 * exact)
