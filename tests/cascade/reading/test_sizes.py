"""Sizes handed back to a lowered module."""

from __future__ import annotations

from tvm import tirx

from redfuser.cascade.reading.sizes import index_expression, size_expression
from redfuser.expr import index, op
from redfuser.extents import Dim, Extent, size_of

N, M = size_of(Dim("n", 1, 64)), size_of(Dim("m", 1, 64))


def at(expression: tirx.PrimExpr | int, n: int, m: int, variables: dict[str, tirx.Var]) -> int:
    from tvm.arith import Analyzer
    from tvm.tirx.stmt_functor import substitute

    numbers = {variables["n"]: tirx.const(n, "int64"), variables["m"]: tirx.const(m, "int64")}
    bound = expression if isinstance(expression, int) else substitute(expression, numbers)
    return int(Analyzer().simplify(bound) if not isinstance(bound, int) else bound)


def test_a_size_is_the_polynomial_it_stands_for() -> None:
    variables = {"n": tirx.Var("n", "int64"), "m": tirx.Var("m", "int64")}
    sizes: list[Extent] = [7, N, 12 * N * M, N * N + 3 * M + -1]
    found = [at(size_expression(size, variables), 5, 4, variables) for size in sizes]
    assert found == [7, 5, 240, 36]


def test_arithmetic_of_sizes_is_written_out() -> None:
    variables = {"n": tirx.Var("n", "int64"), "m": tirx.Var("m", "int64")}
    tiles = op("floordiv", index(N + 63), index(64))
    value = op("max", op("min", op("floordiv", index(100), op("mul", tiles, index(M))), index(32)), index(1))
    expression = index_expression(value, variables)
    assert [at(expression, n, m, variables) for n, m in ((1, 1), (1, 10), (64, 10), (65, 10), (65, 64))] == [
        32,
        10,
        10,
        5,
        1,
    ]
