"""Every cascade of the table gets its verdict, quickly; a fused one carries its certificate."""

from __future__ import annotations

import time

import pytest

from redfuser.algebra import derive
from tests.algebra.catalogue import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict(case: Case) -> None:
    started = time.process_time()
    derivation = derive(case.build(), case.numerics)
    elapsed = time.process_time() - started
    found = derivation.obstacle.code if derivation.obstacle else derivation.form
    assert found == case.verdict, derivation
    assert elapsed < 2
    if derivation.incremental:
        last = derivation.recurrences[-1]
        counters = sum(str(part.element) == "1" for part in last.state) if case.rank == 1 else 0
        assert len(last.state) - counters == case.rank, last
        assert {witness.scenario for witness in derivation.witnesses} >= {"large mean", "large range", "ties", "zeros"}
    else:
        assert derivation.obstacle is not None and derivation.obstacle.witness
