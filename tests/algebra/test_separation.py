"""Reading maps, choosing pivots, and the bound on symbolic work."""

from __future__ import annotations

import pytest
import sympy

from redfuser.algebra.analysis import Analysis, analyse
from redfuser.algebra.assumptions import signs
from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.specialise import specialise
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, op
from tests.algebra.build import Builder, attention, literal, moment, score
from tests.algebra.constructions import div, mul, sub


def analysed(cascade: Cascade, budget: Budget | None = None) -> Analysis:
    return analyse(cascade.reductions[-1], cascade, signs(cascade), budget or Budget())


def second(combiner: str, element: Expr) -> Cascade:
    build = Builder()
    build.reduce("r", "max", score("x"))
    build.reduce("o", combiner, element)
    return build.build()


def result() -> Expr:
    return Builder().reduce("r", "max", score("x"))


def test_scores_reach_sympy_as_one_symbol() -> None:
    masked = op("select", op("gt", score("mask"), literal(0)), op("tanh", score()), Const("float32", float("-inf")))
    reading = analysed(attention(masked)).reading
    assert masked in reading.elements.values()
    assert not reading.formula.has(sympy.tanh) and len(reading.formula.free_symbols) == 4


def test_the_maximum_is_streamed_and_the_sum_deferred() -> None:
    analysis = analysed(attention())
    assert [str(expr) for expr in analysis.streamed.values()] == ["m[i]"]
    assert [str(analysis.reading.leaves[s]) for s in analysis.separation.deferred] == ["t[i]"]


def test_a_pivot_that_is_not_invertible_is_passed_over() -> None:
    # x·r vanishes at r = 0, the pivot tried first; log(r) isn't finite there.
    assert set(analysed(second("sum", mul(score("x"), result()))).separation.deferred.values()) == {1}
    by_logarithm = mul(score("x"), op("log", result()))
    assert analysed(second("sum", by_logarithm)).separation.entangled == ()


def test_the_terms_of_a_sum_under_an_exponential_play_their_own_parts() -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    t = build.reduce("t", "sum", op("exp", sub(score(), m)))
    build.reduce("o", "sum", op("exp", sub(score(), op("add", m, op("log", t)))))
    analysis = analysed(build.build())
    assert [str(expr) for expr in analysis.streamed.values()] == ["m[i]"]
    assert [str(analysis.reading.leaves[s]) for s in analysis.separation.deferred] == ["log(t[i])"]


def test_no_pivot_splits_an_entangled_atom() -> None:
    assert analysed(moment(2)).separation.entangled


def test_correction_uses_the_operation_of_the_pair() -> None:
    assert analysed(second("max", sub(score("x"), result()))).separation.transform == "add"
    assert analysed(second("max", op("max", score("x"), result()))).separation.transform == "max"


def test_a_maximum_is_not_scaled_by_a_factor_of_unknown_sign() -> None:
    with pytest.raises(NotFusible) as refusal:
        analysed(second("max", mul(score("x"), result())))
    assert refusal.value.reason.code == "not-separable"
    assert analysed(second("max", mul(score("x"), op("exp", result())))).separation.transform == "mul"


def test_a_product_takes_a_positive_base_only() -> None:
    assert analysed(second("prod", op("pow", op("exp", score()), result()))).separation.transform == "pow"
    with pytest.raises(NotFusible):
        analysed(second("prod", op("pow", score(), result())))
    with pytest.raises(NotFusible):
        analysed(second("prod", mul(score(), result())))


@pytest.mark.parametrize("budget", [Budget(seconds=-1), Budget(operations=1), Budget(power=1), Budget(work=10)])
def test_work_beyond_the_budget_is_given_up(budget: Budget) -> None:
    with pytest.raises(NotFusible) as refusal:
        analysed(moment(4), budget)
    assert refusal.value.reason.code == "not-proved-in-budget"


def test_neutral_operands_go_and_the_rest_stays() -> None:
    e, t, v = score("e"), score("t"), score("v")
    untouched = mul(v, literal(1))
    assert specialise(mul(div(e, t), untouched), {t: literal(1)}) == mul(e, untouched)
    assert specialise(op("select", op("isnan", t), literal(0), e), {op("isnan", t): Const("bool", False)}) == e
