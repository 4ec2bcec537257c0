"""Symbolic numbers of elements, and index arithmetic with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redfuser.expr import Expr, axis, index, op
from redfuser.expr.binding import at_sizes
from redfuser.expr.evaluate import evaluate
from redfuser.extents import (
    Dim,
    Extent,
    bind,
    common_divisor,
    dims_of,
    divide,
    larger,
    least,
    most,
    size_of,
    surely_at_most,
    surely_less,
)
from redfuser.indexing import compose, coordinates, digits, invert, linear, simplify

BATCH, LENGTH = Dim("batch", 1, 8), Dim("length", 1, 512)
B, S = size_of(BATCH), size_of(LENGTH)


def sizes() -> st.SearchStrategy[Extent]:
    """Small polynomials of two dimensions."""
    leaf = st.one_of(st.integers(-6, 6), st.sampled_from([B, S]))
    return st.recursive(
        leaf, lambda part: st.builds(lambda a, b, add: a + b if add else a * b, part, part, st.booleans())
    )


def test_constants_are_integers_and_forms_are_unique() -> None:
    assert S - S == 0 and S * 0 == 0 and size_of(Dim("one", 3, 3)) == 3
    assert B * S + 2 * S == S * (B + 2) and hash(B * S) == hash(S * B)
    assert str(B * S * 4 - S + 1) == "4*batch*length - length + 1"
    assert dims_of([4, S * B]) == (BATCH, LENGTH)


def test_a_size_has_no_order_and_no_value() -> None:
    for use in (lambda: S < 3, lambda: min(S, 4), lambda: range(S), lambda: int(S), lambda: S % 4):
        with pytest.raises(TypeError):
            use()
    with pytest.raises(ValueError, match="multiple"):
        S // 2


def test_bounds_and_proofs() -> None:
    assert (least(B * S - S), most(B * S - S)) == (1 - 512, 8 * 512 - 1)
    assert surely_less(S - 1, S) and surely_at_most(S, B * S) and surely_less((B - 1) * S + S - 1, B * S)
    assert not surely_less(S, B * S) and not surely_at_most(S, B) and not surely_at_most(B, S)
    assert surely_at_most(S, 512) and not surely_at_most(S, 511)
    assert larger(S, B * S) == larger(B * S, S) == B * S and larger(3, 4) == 4 and larger(S, 511) is None


@given(sizes(), sizes(), st.integers(1, 8), st.integers(1, 512))
def test_laws(a: Extent, b: Extent, batch: int, length: int) -> None:
    where = {"batch": batch, "length": length}
    x, y = bind(a, where), bind(b, where)
    assert (bind(a + b, where), bind(a - b, where), bind(a * b, where)) == (x + y, x - y, x * y)
    assert least(a) <= x <= most(a)
    if surely_at_most(a, b):
        assert x <= y
    quotient = divide(a * b, b)
    assert b == 0 or quotient == a
    if b != 0:
        g = common_divisor(a, b)
        assert divide(a, g) is not None and divide(b, g) is not None


def row(stride: Extent) -> Expr:
    return op("add", op("mul", axis("b", B), index(stride)), axis("s", S))


def test_a_row_and_a_place_in_it_come_apart() -> None:
    flat = row(S)
    assert simplify(op("floordiv", flat, index(S))) == axis("b", B)
    assert simplify(op("floormod", flat, index(S))) == axis("s", S)
    wide = op("add", op("mul", flat, index(64)), axis("d", 64))
    assert simplify(op("floordiv", op("floordiv", wide, index(64)), index(S))) == axis("b", B)
    assert simplify(op("floordiv", wide, index(S * 64))) == axis("b", B)
    assert simplify(op("floormod", op("floordiv", wide, index(64)), index(S))) == axis("s", S)


def test_what_may_carry_stays() -> None:
    longer = op("add", row(S), index(1))
    assert "//" in str(simplify(op("floordiv", longer, index(S))))
    assert simplify(op("lt", axis("s", S), index(S))).value is True  # type: ignore[attr-defined]
    assert str(simplify(op("lt", axis("s", S), index(B)))) == "(s < batch)"


def test_digits_of_an_axis_cut_at_a_symbolic_stride() -> None:
    rows = axis("r", B * S)
    indices = [op("floordiv", rows, index(S)), op("floormod", rows, index(S))]
    parts = digits(indices, rows)
    assert [part.extent for part in parts] == [B, S]
    assert linear(compose(parts)).terms == ((parts[0], S), (parts[1], 1))
    (place,) = coordinates([B * S])
    assert invert([compose(parts)], parts, [B * S]) == {
        parts[0]: linear(op("floordiv", place, index(S))).expr(),
        parts[1]: linear(op("floormod", place, index(S))).expr(),
    }


@given(
    st.integers(1, 8),
    st.integers(1, 40),
    st.sampled_from([1, 3, 64, S, 4 * S, B]),
    st.sampled_from(["floordiv", "floormod"]),
)
def test_simplified_indices_have_the_same_value(batch: int, length: int, divisor: Extent, name: str) -> None:
    where = {"batch": batch, "length": length}
    expr = op(name, op("add", op("mul", row(S), index(64)), axis("d", 64)), index(divisor))
    simple = simplify(expr)
    for b, s, d in ((0, 0, 0), (batch - 1, length - 1, 63), (batch // 2, length // 2, 5)):
        flat = (b * length + s) * 64 + d
        expected = flat // bind(divisor, where) if name == "floordiv" else flat % bind(divisor, where)
        mesh = {axis("b", batch): np.asarray(b), axis("s", length): np.asarray(s), axis("d", 64): np.asarray(d)}
        assert int(evaluate(at_sizes(simple, where), {}, mesh)) == expected
