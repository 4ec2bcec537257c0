"""Stability in float32, equal cascades derived once, and the page that explains a derivation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import Memo, derive
from redfuser.algebra.canonical import canonical
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Expr, Load, Tensor, transform
from tests.algebra.build import LENGTH, attention, moment
from tests.algebra.catalogue import CASES

TILES = tuple(range(n, min(n + 5, LENGTH)) for n in range(0, LENGTH, 5))


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("segments", [(TILES,), (TILES[:2], TILES[2:])])
def test_variance_in_float32_is_no_worse_than_two_passes(mean: float, segments: tuple[tuple[range, ...], ...]) -> None:
    cascade = moment(2)
    x = (np.random.default_rng(3).normal(size=(3, LENGTH)) + mean).astype(np.float32)
    tensors = {cascade.inputs[0]: x}
    result = cascade.reductions[-1].result
    exact = direct(cascade, tensors)[result]
    two_pass = direct(cascade, tensors, None)[result]
    one_pass = Replay(cascade, derive(cascade), tensors, None).run(segments)[result]
    assert one_pass.dtype == np.float32
    # Both take differences from a mean that float32 rounds.
    rounding = LENGTH * (np.spacing(np.float32(mean)) / 2) ** 2
    allowed = np.abs(two_pass - exact).max() + rounding + 2e-6 * exact.max()
    assert np.abs(one_pass - exact).max() <= allowed


def test_a_state_without_a_base_would_cancel() -> None:
    x = np.random.default_rng(3).normal(size=(1, LENGTH)).astype(np.float32) + np.float32(1e4)
    naive = (x * x).sum(dtype=np.float32) - x.sum(dtype=np.float32) ** 2 / np.float32(LENGTH)
    assert abs(naive - x.astype(np.float64).var() * LENGTH) > 1


def renamed(cascade: Cascade, prefix: str) -> Cascade:
    """The same cascade of another layer."""

    def tensor(old: Tensor) -> Tensor:
        return replace(old, name=prefix + old.name)

    def axis(old: Axis) -> Axis:
        return Axis(old.dtype, prefix + old.name, old.extent)

    def rule(node: Expr) -> Expr:
        if isinstance(node, Axis):
            return axis(node)
        return Load(node.dtype, tensor(node.tensor), node.indices) if isinstance(node, Load) else node

    reductions = tuple(
        replace(
            r,
            result=tensor(r.result),
            axes=tuple(map(axis, r.axes)),
            over=axis(r.over),
            map=transform(r.map, rule),
        )
        for r in cascade.reductions
    )
    return Cascade(
        prefix + cascade.name,
        tuple(map(axis, cascade.rows)),
        axis(cascade.axis),
        tuple(map(tensor, cascade.inputs)),
        (),
        reductions,
        (),
    )


def test_equal_cascades_are_derived_once() -> None:
    memo: Memo = {}
    first, other = derive(attention(), memo=memo), derive(renamed(attention(), "layer2_"), memo=memo)
    assert len(memo) == 1
    assert str(other.recurrences[2].finish).startswith("((layer2_o.0[layer2_i, layer2_d]")
    assert str(first.recurrences[2].finish) == "((o.0[i, d] * exp((m.base[i] - m[i]))) / t[i])"
    derive(moment(2), memo=memo)
    assert len(memo) == 2


def test_names_come_back_in_a_witness() -> None:
    case = next(c for c in CASES if c.name == "mean absolute deviation")
    obstacle = derive(case.build()).obstacle
    assert obstacle is not None and obstacle.witness == "Abs(x[i, l] - (r[i] / 24))"


def test_the_key_depends_on_shape_and_map() -> None:
    key, _ = canonical(attention())
    assert key == canonical(renamed(attention(), "z"))[0]
    assert key != canonical(moment(2))[0]


def test_numerics_must_be_known() -> None:
    with pytest.raises(ValueError, match="relaxed"):
        derive(attention(), "fast")


def test_an_exact_form_is_kept_under_relaxed_numerics() -> None:
    assert derive(attention(), "relaxed").exactness == "exact"


def test_reordered_rounding_keeps_its_bound() -> None:
    case = next(c for c in CASES if c.name == "int8 quantise + GEMM, relaxed")
    derivation = derive(case.build(), "relaxed")
    assert derivation.exactness == "reordered-rounding"
    (bound,) = derivation.bounds
    assert bound.result == "o" and str(bound.element) == "abs(w[l, d])" and 0 < bound.share <= 1
    assert all(witness.error < 1e-9 for witness in derivation.witnesses)
