"""Ranges of integers, and products of them as products of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.codegen.gpu import Refused, emit
from redfuser.codegen.gpu.emission.integers import Range, integer_range, signed_bytes
from redfuser.expr import Expr, Tensor, axis, cast, load, number, op
from redfuser.expr.evaluate import evaluate
from tests.codegen.gpu.programs import byte_product, integer_product, program

I = axis("i", 4)  # noqa: E741
BYTE, SIGNED, WORD = (load(Tensor(name, (4,), name), I) for name in ("uint8", "int8", "int32"))
WIDE, ZERO = cast(BYTE, "int32"), cast(SIGNED, "int32")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (BYTE, (0, 255)),
        (WIDE, (0, 255)),
        (op("sub", WIDE, number(128, "int32")), (-128, 127)),
        (op("sub", WIDE, ZERO), (-127, 383)),
        (op("add", WIDE, ZERO), (-128, 382)),
        (op("min", WIDE, ZERO), (-128, 127)),
        (op("select", op("lt", WIDE, ZERO), ZERO, WIDE), (-128, 255)),
        (cast(WORD, "int8"), (-128, 127)),
        (op("add", SIGNED, SIGNED), (-128, 127)),  # which wraps around
        (WORD, None),
        (op("mul", WIDE, ZERO), None),
    ],
    ids=str,
)
def test_range(value: Expr, expected: Range | None) -> None:
    assert integer_range(value, {}) == expected
    assert integer_range(WORD, {WORD.tensor: (0, 7)}) == (0, 7)


@pytest.mark.parametrize(("least", "largest", "terms"), [(-128, 127, 1), (0, 255, 3), (-255, 255, 3), (-256, 0, 3)])
def test_bytes_add_up(least: int, largest: int, terms: int) -> None:
    parts = signed_bytes(WORD, {WORD.tensor: (least, largest)})
    assert parts is not None and len(parts) == terms
    for value in range(least, largest + 1):
        given = {WORD.tensor: np.full(4, value, "int32")}
        found = [int(np.ravel(evaluate(cast(part, "int32"), given, {I: np.arange(1)}))[0]) for part in parts]
        assert sum(found) == value and all(-128 <= item <= 127 for item in found)


@pytest.mark.parametrize("range_", [None, (0, 256), (-257, 0)], ids=str)
def test_more_than_two_bytes_of_a_sign_are_refused(range_: Range | None) -> None:
    assert signed_bytes(WORD, {} if range_ is None else {WORD.tensor: range_}) is None


@pytest.mark.parametrize(
    ("weights", "shifted", "products"), [("int8", False, 1), ("int8", True, 3), ("uint8", True, 3)]
)
def test_products_are_of_bytes_and_summed_as_integers(weights: str, shifted: bool, products: int) -> None:
    cascade = integer_product(64, 128, 64, weights, shifted)
    [script] = emit(program(cascade, "resident", i=64, j=64))
    assert script.text.count("T.gemm(") == products
    assert 'g = T.alloc_fragment((64, 64), "int32")' in script.text and "int8" in script.text


def test_bytes_are_multiplied_where_they_were_copied_to() -> None:
    [script] = emit(program(byte_product(64, 256, 64, "int8"), i=64, n=64, j=128))
    assert "T.gemm(cast, w_int8," in script.text and "T.cast(cast" not in script.text
    assert "T.Pipelined(" in script.text


def test_products_of_words_are_refused() -> None:
    with pytest.raises(Refused, match="product-type"):
        emit(program(integer_product(64, 128, 64, "int32"), "resident", i=64, j=64))
