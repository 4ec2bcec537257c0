"""What combiners do to arrays: each against its definition, lists and pairs against a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redfuser.cascade.combiners import accumulate, identity, join
from redfuser.cascade.model import IDENTITIES
from redfuser.expr import INDEX, PAIR, Const, pair, position_of, taken_apart, value_of
from redfuser.expr.evaluate import evaluate, extreme_pair, numpy_dtype
from tests.selections import ordered

VALUES = st.lists(st.sampled_from([np.nan, -np.inf, np.inf, -1.0, 0.0, -0.0, 0.5, 2.0]), min_size=1, max_size=12)


def pairs(values: np.ndarray, largest: bool, start: int = 0) -> np.ndarray:
    """Each value with its position, as a selection folds them."""
    result = np.empty(values.shape, np.complex128)
    result.real, result.imag = values, np.arange(start, start + len(values)) * (-1 if largest else 1)
    return result


def empty(combiner: str, *shape: int) -> np.ndarray:
    return np.full(shape, identity(combiner, numpy_dtype(PAIR)))


@given(VALUES, st.integers(1, 12), st.integers(0, 12), st.booleans())
def test_a_list_keeps_the_best_of_a_stable_sort_however_it_is_cut(
    values: list[float], k: int, cut: int, largest: bool
) -> None:
    x, k, cut = np.array(values), min(k, len(values)), min(cut, len(values))
    combiner = "topk" if largest else "bottomk"
    one = accumulate(combiner, empty(combiner, k), pairs(x[:cut], largest))
    other = accumulate(combiner, empty(combiner, k), pairs(x[cut:], largest, cut))
    for found in (join(combiner, one, other), join(combiner, other, one)):
        positions = np.abs(found.imag).astype(int)
        np.testing.assert_array_equal(positions, ordered(x, k, largest))
        np.testing.assert_array_equal(found.real, x[positions])


@given(VALUES, st.integers(0, 12), st.booleans())
def test_the_extreme_pair_is_the_first_of_the_list(values: list[float], cut: int, largest: bool) -> None:
    x, cut = np.array(values), min(cut, len(values))
    combiner = "max" if largest else "min"
    one = accumulate(combiner, empty(combiner), pairs(x[:cut], largest))
    other = accumulate(combiner, empty(combiner), pairs(x[cut:], largest, cut))
    assert abs(int(join(combiner, one, other).imag)) == ordered(x, 1, largest)[0]


@pytest.mark.parametrize("combiner", IDENTITIES)
@pytest.mark.parametrize("kind", ["float32", "int32", "bool"])
def test_identities_change_nothing(combiner: str, kind: str) -> None:
    if combiner in ("topk", "bottomk") or (kind == "bool" and combiner in ("sum", "prod")):
        pytest.skip("lists hold pairs; sums of truth values are counts")
    x = np.array([[3, 1], [0, 2]]).astype(kind)
    np.testing.assert_array_equal(join(combiner, np.full(x.shape, identity(combiner, x.dtype), x.dtype), x), x)


def test_pairs_are_taken_apart_again() -> None:
    value, position = Const("float32", 1.5), Const(INDEX, 7)
    made = pair(value, position)
    assert evaluate(value_of(made, "float32"), {}, {}) == 1.5
    assert evaluate(position_of(made), {}, {}) == 7
    assert taken_apart(value_of(made, "float32")) is value
    assert taken_apart(position_of(made)) is position
    assert evaluate(Const(PAIR, float("-inf")), {}, {}) == extreme_pair(float("-inf"))
