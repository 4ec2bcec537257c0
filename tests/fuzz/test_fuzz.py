"""Equal mathematics, equal verdict, equal answer: 25 graphs always, 500 among the slow tests."""

from __future__ import annotations

import pytest

from tests.fuzz.families import CHOICES, FAMILIES, Case
from tests.fuzz.judge import failures

SPELLINGS, USUAL, ALL, CHOSEN = 5, 5, 100, 10


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed >= USUAL else []) for seed in range(ALL)]
)
def test_every_spelling_gets_the_same_verdict_and_the_right_values(seed: int) -> None:
    assert failures(Case(seed), SPELLINGS) == []


@pytest.mark.parametrize("family", sorted(CHOICES))
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 1 else []) for seed in range(CHOSEN)]
)
def test_every_spelling_makes_the_same_choices(seed: int, family: str) -> None:
    assert failures(Case(seed, family), SPELLINGS) == []


def test_a_case_is_its_seed() -> None:
    first, second = Case(3).model(2), Case(3).model(2)
    assert first.SerializeToString() == second.SerializeToString()
    assert first.SerializeToString() != Case(3).model(1).SerializeToString()


def test_every_family_occurs_among_the_usual_ones() -> None:
    assert {Case(seed).family for seed in range(ALL)} == set(FAMILIES)
