"""Reading maps, choosing pivots, and the bound on symbolic work."""

from __future__ import annotations

import pytest
import sympy

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.formulas.assumptions import signs
from redfuser.algebra.formulas.specialise import specialise
from redfuser.algebra.proofs.analysis import Analysis, analyse
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, cast, op
from tests.algebra.build import F32, ROW, Builder, attention, literal, moment, score, tensor
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


R = op("abs", result())
POSITIVE = op("add", R, literal(1))
MASK, LONE = score("mask"), score("y")

#: what the map is, how its earlier result comes in, and the same with one thing changed so that the rule must refuse:
#: combiner, element, ⊗, element of the refusal
RULES: dict[str, tuple[str, Expr, str, Expr]] = {
    "product": ("sum", mul(score("x"), result()), "mul", op("tanh", mul(score("x"), result()))),
    "quotient": ("sum", div(score("x"), POSITIVE), "mul", div(score("x"), op("add", score("y"), R))),
    "power": ("sum", op("pow", div(score("x"), POSITIVE), literal(3)), "mul", op("pow", POSITIVE, score("x"))),
    "root": ("sum", op("sqrt", mul(op("abs", LONE), POSITIVE)), "mul", op("sqrt", op("add", op("abs", LONE), R))),
    "exponential": ("sum", op("exp", sub(LONE, result())), "mul", op("exp", mul(LONE, result()))),
    "logarithm": ("max", op("log", mul(op("exp", LONE), POSITIVE)), "add", op("log", op("add", op("exp", LONE), R))),
    "absolute value": ("sum", op("abs", mul(LONE, result())), "mul", op("abs", sub(LONE, result()))),
    "maximum with an earlier result": ("max", op("max", LONE, result()), "max", op("max", LONE, mul(LONE, result()))),
    "bounded result": ("sum", div(LONE, op("max", R, literal(1e-6))), "mul", div(LONE, op("max", mul(LONE, R), LONE))),
    "shifted extremum": ("min", sub(LONE, result()), "add", op("sin", sub(LONE, result()))),
    "scaled extremum": ("max", mul(LONE, POSITIVE), "mul", mul(LONE, result())),
    "masked": (
        *("sum", op("select", op("gt", MASK, literal(0)), mul(LONE, result()), literal(0)), "mul"),
        op("select", op("gt", LONE, result()), LONE, literal(0)),
    ),
    "cast": ("sum", cast(cast(mul(LONE, result()), "float64"), F32), "mul", cast(cast(mul(LONE, R), "int8"), F32)),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_fires(name: str) -> None:
    combiner, element, transform, _ = RULES[name]
    analysis = analysed(second(combiner, element))
    assert analysis.separation.transform == transform and not analysis.separation.entangled
    assert analysis.closure.rank == 1


@pytest.mark.parametrize("name", RULES)
def test_each_rule_refuses(name: str) -> None:
    combiner, _, _, element = RULES[name]
    with pytest.raises(NotFusible) as refusal:
        analysed(second(combiner, element))
    assert refusal.value.reason.code in ("not-finite-rank", "not-separable")
    assert refusal.value.reason.witness


def test_a_sum_of_terms_closes_and_one_that_mixes_does_not() -> None:
    shifted = op("add", mul(LONE, result()), mul(score("x"), op("exp", op("sub", literal(0), R))))
    # Beside the map itself, which is no basis function where the result is 0, its two elements.
    assert len(analysed(second("sum", shifted)).closure.basis[1:]) == 2
    with pytest.raises(NotFusible):
        analysed(second("sum", op("add", shifted, op("tanh", mul(LONE, result())))))


def test_what_neither_element_nor_result_determines_stays_in_the_element() -> None:
    scale, row = tensor("scale"), tensor("row", ROW)
    analysis = analysed(second("sum", mul(mul(mul(LONE, result()), scale), row)))
    assert not analysis.separation.entangled
    with pytest.raises(NotFusible):
        analysed(second("sum", op("tanh", mul(mul(LONE, result()), scale))))
