"""The laws the algebra rests on: exhaustively on small domains, and by hypothesis on floats with −∞."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redfuser.algebra.monoids import MONOIDS, PAIRS, TRANSFORMS, Monoid, Pair, largest, monoid, pair, smallest
from redfuser.cascade.model import IDENTITIES, LISTS

#: exact in binary, with the infinities of the extrema
NUMBERS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 4.0)
POSITIVE = (0.25, 0.5, 1.0, 2.0)
DOMAINS: dict[str, tuple[object, ...]] = {
    "sum": NUMBERS,
    "prod": NUMBERS,
    "max": (-math.inf, *NUMBERS, math.inf),
    "min": (-math.inf, *NUMBERS, math.inf),
    "argmax": tuple((x, n) for x in (-math.inf, 0.0, 1.0) for n in (0, 1, 5)),
    "argmin": tuple((x, n) for x in (math.inf, 0.0, 1.0) for n in (0, 1, 5)),
    "or": (False, True),
    "and": (False, True),
}


def apply(law: Pair, value: object, factor: object) -> object:
    """⊗ on an element of the monoid's domain: on the value of a pair, on each value of a bag."""
    transform = TRANSFORMS[law.transform].apply
    if law.combiner in ("argmax", "argmin"):
        assert isinstance(value, tuple)
        return (transform(value[0], factor), value[1])
    return tuple(transform(x, factor) for x in value) if isinstance(value, tuple) else transform(value, factor)


@pytest.mark.parametrize("name", MONOIDS)
def test_each_is_a_commutative_monoid(name: str) -> None:
    check_monoid(MONOIDS[name], DOMAINS[name])


def test_top_k_is_a_commutative_monoid_and_a_nan_comes_first() -> None:
    check_monoid(largest(2), ((), (1.0,), (3.0, -1.0), (2.0, 2.0), (-math.inf,)))
    assert math.isnan(largest(1).combine((math.inf,), (math.nan,))[0])


def test_bottom_k_is_a_commutative_monoid_and_a_nan_comes_last() -> None:
    check_monoid(smallest(2), ((), (1.0,), (-1.0, 3.0), (2.0, 2.0), (math.inf,)))
    assert smallest(1).combine((math.inf,), (math.nan,)) == (math.inf,)


def check_monoid(monoid: Monoid, domain: tuple[object, ...]) -> None:
    combine = monoid.combine
    for x in domain:
        assert combine(monoid.identity, x) == x == combine(x, monoid.identity)
        if monoid.idempotent:
            assert combine(x, x) == x
    for x, y, z in itertools.product(domain, repeat=3):
        assert combine(x, y) == combine(y, x)
        assert combine(combine(x, y), z) == combine(x, combine(y, z))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_transform_has_its_identity_and_inverse(name: str) -> None:
    transform = TRANSFORMS[name]
    domain = (False, True) if name == "and" else POSITIVE
    for value in domain:
        assert transform.apply(value, transform.identity) == value
        if transform.inverse is not None:
            for factor in POSITIVE:
                undone = transform.apply(transform.apply(value, factor), transform.inverse(factor))
                assert undone == pytest.approx(value, rel=1e-15)


def factors(law: Pair) -> tuple[object, ...]:
    if law.transform == "and":
        return (False, True)
    return POSITIVE if law.condition or law.transform == "pow" else NUMBERS


@pytest.mark.parametrize("law", PAIRS, ids=str)
def test_the_law_of_each_pair(law: Pair) -> None:
    bags: tuple[object, ...] = ((), (1.0,), (3.0, -1.0), (2.0, 2.0), (-math.inf,))
    domain = bags if law.combiner in LISTS else DOMAINS[law.combiner]
    if law.condition == "x > 0":
        domain = POSITIVE
    combine = monoid(law.combiner, 2).combine
    for a, b in itertools.product(domain, repeat=2):
        for c in factors(law):
            left, right = apply(law, combine(a, b), c), combine(apply(law, a, c), apply(law, b, c))
            assert left == pytest.approx(right, rel=1e-14) if law.transform == "pow" else left == right, (a, b, c)


def test_the_condition_of_a_pair_is_needed() -> None:
    law = pair("max", "mul")
    assert law is not None and law.condition == "c > 0"
    assert max(1.0, 2.0) * -1 != max(1.0 * -1, 2.0 * -1)


@pytest.mark.parametrize("combiner, transform", [("sum", "add"), ("sum", "max"), ("prod", "mul"), ("prod", "add")])
def test_pairs_that_do_not_distribute_are_not_in_the_table(combiner: str, transform: str) -> None:
    assert pair(combiner, transform) is None
    combine, apply_ = MONOIDS[combiner].combine, TRANSFORMS[transform].apply
    assert any(
        apply_(combine(a, b), c) != combine(apply_(a, c), apply_(b, c))
        for a, b, c in itertools.product(NUMBERS, repeat=3)
    )


def test_the_cascade_model_has_the_same_identities() -> None:
    assert {name: MONOIDS[name].identity for name in IDENTITIES if name not in LISTS} == {
        name: value for name, value in IDENTITIES.items() if name not in LISTS
    }


FLOATS = st.floats(min_value=-1e6, max_value=1e6) | st.just(-math.inf)
FACTORS = {
    "add": st.floats(min_value=-1e6, max_value=1e6),
    "mul": st.floats(min_value=1e-3, max_value=1e3),
    "pow": st.floats(min_value=0.25, max_value=4),
    "max": FLOATS,
    "min": FLOATS,
    "and": st.booleans(),
}


def values_of(law: Pair) -> st.SearchStrategy[object]:
    """Elements of the monoid; −∞ among them where it stands for nothing seen."""
    if law.combiner in ("topk", "bottomk"):
        return st.lists(FLOATS, max_size=2).map(tuple)
    if law.combiner in ("argmax", "argmin"):
        return st.tuples(FLOATS, st.integers(0, 9))
    if law.combiner == "or":
        return st.booleans()
    if law.combiner == "sum":
        return st.floats(min_value=-1e6, max_value=1e6)
    return st.floats(min_value=1e-3, max_value=1e3) if law.condition == "x > 0" else FLOATS


@pytest.mark.parametrize("law", PAIRS, ids=str)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_law_of_each_pair_in_floating_point(law: Pair, data: st.DataObject) -> None:
    """Exactly, except where ⊕ or ⊗ itself rounds; rounding may make a tie, so of a winner the value is compared."""
    a, b = data.draw(values_of(law)), data.draw(values_of(law))
    c = data.draw(FACTORS[law.transform])
    combine = {"topk": largest, "bottomk": smallest}[law.combiner](2).combine if law.combiner.endswith("k") else None
    combine = combine or MONOIDS[law.combiner].combine
    left, right = apply(law, combine(a, b), c), combine(apply(law, a, c), apply(law, b, c))
    if law.combiner == "sum":
        assert isinstance(a, float) and isinstance(b, float)
        assert left == pytest.approx(right, abs=1e-15 * (abs(a) + abs(b)) * c + 1e-300)
    elif law.combiner == "prod":
        assert left == pytest.approx(right, rel=1e-12)
    elif law.combiner in ("argmax", "argmin"):
        assert isinstance(left, tuple) and isinstance(right, tuple) and left[0] == right[0]
    else:
        assert left == right
