"""Derivations as pages: whole ones as goldens, and what every case of the table must show."""

from __future__ import annotations

import pytest

from redfuser.algebra import derive
from redfuser.expr import Const, Tensor, axis, cast, load, op
from redfuser.report.ascii import to_ascii
from redfuser.report.derivations import describe_derivation
from redfuser.report.paper import derivation_lines
from redfuser.report.writing import Writer
from tests.algebra.build import attention
from tests.algebra.catalogue import CASES, Case
from tests.golden import Golden

PAGES = {
    "attention": "softmax + GEMM, causal",
    "entropy": "entropy",
    "variance": "variance",
    "min_max": "min-max",
    "fp8": "FP8 quantise + GEMM, relaxed",
    "deviation": "mean absolute deviation",
}


def page(case: Case) -> str:
    """Without the sizes of rounding errors, which depend on the machine."""
    cascade = case.build()
    derivation = derive(cascade, case.numerics)
    lines = derivation_lines(describe_derivation(cascade, derivation), derivation.exactness)
    return "\n".join(line for line in lines if not line.startswith("checked"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_as_on_paper(name: str, golden: Golden) -> None:
    golden.check(f"pages/{name}.txt", page(next(case for case in CASES if case.name == PAGES[name])))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_a_page_in_plain_characters_too(case: Case) -> None:
    text = to_ascii(page(case))
    assert "\\u" not in text and "\\x" not in text
    assert "merge" in text or "no incremental form" in text


def test_inputs_go_by_the_names_of_the_model() -> None:
    cascade = attention()
    entry = describe_derivation(cascade, derive(cascade), ["scores", "values"])
    assert entry.recurrences[2].definition == "o = Σ_l exp(scores − m)/t·values"


def test_a_tensor_read_at_two_places_keeps_its_indices() -> None:
    row, k = axis("row", 4), axis("k", 8)
    x = Tensor("x", (4, 8), "float32")
    both = op("add", load(x, row, k), load(x, Const("int64", 0), k))
    assert Writer().write(both) == "x[row, k] + x[0, k]"
    assert Writer(bare=frozenset({"x"})).write(both) == "x + x"


def test_only_casts_that_can_change_a_value_show() -> None:
    x = load(Tensor("x", (), "float16"))
    assert Writer().write(cast(x, "float32")) == "x"
    assert Writer().write(cast(cast(x, "float32"), "float16")) == "float16(x)"
    assert Writer().write(cast(op("eq", x, x), "float32")) == "[x = x]"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (float("-inf"), "float32", "−∞"),
        (0.1, "float32", "0.1"),
        (1e-5, "float32", "1e−05"),
        (1 / 24, "float64", "0.0"),
        (1e300, "float64", "1e+300"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_numbers_are_short_and_exact(value: float, dtype: str, text: str) -> None:
    assert Writer().number(value, dtype).startswith(text)
