"""Remainders that TVM's analysis gets wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redfuser.codegen.modulo import hide_dividends

tvm = pytest.importorskip("tvm")
tirx = tvm.tirx

ROWS = 5


def index_function(steps: tuple[int, int], offset: int, divisor: int, modulus: int, unrolled: int):
    """``out[i, j] = (steps · (i, j) + offset) // divisor mod modulus``, the inner loop unrolled."""
    out = tirx.decl_buffer((ROWS, unrolled), "int32", "out")
    i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
    x = i * steps[0] + j * steps[1] + offset
    body = tirx.BufferStore(out, tirx.floormod(tirx.floordiv(x, divisor), modulus), [i, j])
    for variable, extent, kind in ((j, unrolled, tirx.ForKind.UNROLLED), (i, ROWS, tirx.ForKind.SERIAL)):
        body = tirx.For(variable, tirx.IntImm("int32", 0), tirx.IntImm("int32", extent), kind, body)
    parameter = tirx.Var("p", "handle")
    function = tirx.PrimFunc([parameter], body, buffer_map={parameter: out})
    return function.with_attrs({"global_symbol": "digits", "tirx.noalias": True})


def hides(function) -> bool:
    return "reinterpret" in hide_dividends(tvm.IRModule({"digits": function})).script()


def test_tvm_still_bounds_such_a_remainder_by_an_empty_range() -> None:
    """Where this fails, TVM was mended and the module is to be deleted."""
    bound = tvm.arith.Analyzer().const_int_bound(tirx.floormod(tirx.Var("i", "int32") * 4 + 3, 6))
    assert bound.min_value > bound.max_value


@pytest.mark.parametrize(
    ("steps", "offset", "divisor", "modulus", "hidden"),
    [
        ((4, 0), 3, 1, 6, True),
        ((4, 0), 3, 3, 2, True),
        ((4, 1), 0, 1, 6, True),  # the unrolled loop moves the offset
        ((4, 0), 1, 1, 6, False),  # 1 is the least of its residue class
        ((4, 0), 3, 1, 9, False),  # every residue is possible
        ((0, 4), 3, 1, 6, False),  # known once unrolled
    ],
)
def test_what_is_hidden(steps: tuple[int, int], offset: int, divisor: int, modulus: int, hidden: bool) -> None:
    assert hides(index_function(steps, offset, divisor, modulus, 3)) == hidden


def test_a_variable_stands_for_what_it_is_bound_to() -> None:
    out, place = tirx.decl_buffer((ROWS,), "int32", "out"), tirx.Var("place", "int32")
    i, parameter = tirx.Var("i", "int32"), tirx.Var("p", "handle")
    store = tirx.BufferStore(out, tirx.floormod(place, 6), [i])
    bound = tirx.SeqStmt([tirx.Bind(place, i * 4 + 3), store])
    loop = tirx.For(i, tirx.IntImm("int32", 0), tirx.IntImm("int32", ROWS), tirx.ForKind.SERIAL, bound)
    assert hides(tirx.PrimFunc([parameter], loop, buffer_map={parameter: out}))


@settings(max_examples=40, deadline=None)
@given(
    steps=st.tuples(st.sampled_from([1, 2, 4, 6, 8, 16, 64]), st.sampled_from([1, 2, 3, 4, 16])),
    offset=st.integers(-20, 60),
    divisor=st.sampled_from([1, 2, 3, 5, 6, 10]),
    modulus=st.sampled_from([2, 3, 4, 6, 10, 12]),
)
def test_machine_code_counts_right(steps: tuple[int, int], offset: int, divisor: int, modulus: int) -> None:
    function = index_function(steps, offset, divisor, modulus, 4)
    library = tvm.compile(hide_dividends(tvm.IRModule({"digits": function})), target="llvm")
    out = tvm.runtime.tensor(np.zeros((ROWS, 4), np.int32))
    library["digits"](out)
    i, j = np.meshgrid(np.arange(ROWS), np.arange(4), indexing="ij")
    np.testing.assert_array_equal(out.numpy(), (i * steps[0] + j * steps[1] + offset) // divisor % modulus)
