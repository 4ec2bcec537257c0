"""Index arithmetic: the value never changes, and the forms that reshapes leave come out affine."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, axis, index, load, op
from redfuser.indexing import compose, coordinates, digits, invert, linear, replace, simplify

AXES = (axis("a", 3), axis("b", 4), axis("c", 6))


def evaluate(expr: Expr, point: dict[str, int]) -> int:
    """Integer meaning of an index expression, written independently of the library."""
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Axis):
        return point[expr.name]
    assert isinstance(expr, Op)
    a, b = (evaluate(x, point) for x in expr.args)
    table = {"add": a + b, "sub": a - b, "mul": a * b}
    return table[expr.name] if expr.name in table else (a // b if expr.name == "floordiv" else a % b)


def indices(depth: int = 4) -> st.SearchStrategy[Expr]:
    leaf = st.sampled_from([*AXES, *map(index, range(8))])
    divisor = st.sampled_from([2, 3, 4, 6, 8, 12]).map(index)

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        sums = st.builds(op, st.sampled_from(["add", "sub"]), inner, inner)
        cuts = st.builds(op, st.sampled_from(["mul", "floordiv", "floormod"]), inner, divisor)
        return sums | cuts

    return st.recursive(leaf, extend, max_leaves=depth * 2)


@settings(max_examples=300, deadline=None)
@given(indices())
def test_simplify_keeps_the_value(expr: Expr) -> None:
    simple = simplify(expr)
    for values in itertools.product(*(range(a.extent) for a in AXES)):
        point = dict(zip("abc", values, strict=True))
        assert evaluate(expr, point) == evaluate(simple, point)


def test_reshape_of_four_axes_comes_back_affine() -> None:
    b, s, h, d = axis("b", 2), axis("s", 24), axis("h", 12), axis("d", 32)
    inner = op("add", op("mul", h, index(32)), d)
    row = op("add", op("floordiv", inner, index(384)), s)
    batch = op("floormod", op("add", op("floordiv", row, index(24)), b), index(2))
    assert simplify(batch) == b
    assert simplify(op("floormod", row, index(24))) == s
    assert str(simplify(op("floormod", inner, index(384)))) == "((h * 32) + d)"


def test_quotient_and_remainder_recombine() -> None:
    c = axis("c", 384)
    whole = op("add", op("mul", op("floordiv", c, index(32)), index(32)), op("floormod", c, index(32)))
    assert simplify(whole) == c


def test_comparison_decided_by_ranges_folds_and_others_stay() -> None:
    a = axis("a", 3)
    x = load(Tensor("x", (3,), "float32"), a)
    inside = op("select", op("lt", a, index(3)), x, Const("float32", 0.0))
    maybe = op("select", op("lt", a, index(2)), x, Const("float32", 0.0))
    assert simplify(inside) == x
    assert isinstance(simplify(maybe), Op)


def test_flag_behind_an_integer_cast_is_the_flag() -> None:
    flag = load(Tensor("flag", (), "bool"))
    assert simplify(op("lt", index(0), Op("int64", "cast", (flag,)))) == flag


def test_digits_split_where_cut_and_refuse_cuts_that_do_not_nest() -> None:
    c = axis("c", 384)
    parts = digits([op("floordiv", c, index(32)), op("floormod", c, index(32))], c)
    assert [p.extent for p in parts] == [12, 32]
    uses = {c: compose(parts)}
    assert replace(op("floordiv", c, index(32)), uses) == parts[0]
    assert replace(op("floormod", c, index(32)), uses) == parts[1]
    assert digits([op("floordiv", c, index(32)), op("floordiv", c, index(48))], c) == (c,)


def test_invert_solves_a_merged_dimension_and_refuses_a_slice() -> None:
    h, d, q = axis("h", 12), axis("d", 32), axis("q", 24)
    merged = op("add", op("mul", h, index(32)), d)
    solved = invert([merged, q], [h, d, q], [384, 24])
    assert solved is not None
    first, second = coordinates([384, 24])
    assert solved[q] == second
    assert solved[h] == linear(op("floordiv", first, index(32))).expr()
    assert invert([merged, q], [h, d, q], [400, 24]) is None
    assert invert([op("mul", q, index(2))], [q], [48]) is None


def test_data_dependent_index_is_kept_whole() -> None:
    table = Tensor("table", (5,), "int64")
    where = load(table, axis("i", 5))
    simple = simplify(load(Tensor("x", (100,), "float32"), op("add", where, index(0))))
    assert isinstance(simple, Load) and simple.indices == (where,)


def test_extrema_have_the_bounds_of_their_arguments() -> None:
    """A tile moved back to end with its axis, and an index from data kept inside a table."""
    (a, _, c), data = AXES, load(Tensor("ids", (3,), "int64"), AXES[0])
    assert linear(op("add", op("min", op("mul", a, index(4)), index(5)), c)).bounds() == (0, 10)
    assert linear(op("min", op("max", index(0), data), index(9))).bounds() == (0, 9)
