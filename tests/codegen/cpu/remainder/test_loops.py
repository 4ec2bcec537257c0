"""Element-wise operations and reductions: flat addresses, what is computed together, and that the numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tvm")

from tvm import relax
from tvm.script import relax as R

from redfuser.cascade.graph import Definition
from redfuser.cascade.reading.tir import Fragment
from redfuser.codegen.cpu.module import assemble
from redfuser.codegen.cpu.remainder.flat import address, flat, flatten, normalise
from redfuser.codegen.cpu.remainder.groups import make_groups
from redfuser.codegen.cpu.remainder.inlining import inline
from redfuser.codegen.cpu.remainder.pieces import pieces
from redfuser.codegen.cpu.remainder.programs import BLOCK, make_phase
from redfuser.expr import Axis, Expr, Tensor, axis, index, load, number, op
from redfuser.targets import CpuTarget, load_target
from redfuser.tile.ir import Reduce, Store
from tests.codegen.cpu.build import called, legalised, run


@pytest.fixture(scope="module")
def target() -> CpuTarget:
    found = load_target("cpu")
    assert isinstance(found, CpuTarget)
    return found


def axes(*extents: int) -> tuple[Axis, ...]:
    return tuple(axis(f"i{k}", extent) for k, extent in enumerate(extents))


# ------------------------------------------------------------------------------------------------ flat memory


def test_axes_that_memory_cannot_tell_apart_are_merged() -> None:
    i = axes(1, 3, 4)
    x = Tensor("x", (1, 3, 4), "float32")
    normal = normalise(i, (flatten(load(x, *i)), address(x, i)))
    assert [a.extent for a in normal.axes] == [12]
    assert normal.of(i[:2]) == normal.axes


def test_a_broadcast_keeps_axes_apart() -> None:
    i = axes(3, 4)
    x, bias = Tensor("x", (3, 4), "float32"), Tensor("bias", (4,), "float32")
    normal = normalise(i, (flatten(op("add", load(x, *i), load(bias, i[1]))), address(x, i)))
    assert [a.extent for a in normal.axes] == [3, 4]


def test_an_axis_is_split_where_its_parts_go_different_ways() -> None:
    """Heads out of a hidden dimension: ``y[s, c] = x[c // 8, s, c % 8]``."""
    s, c = axes(5, 16)
    x, y = Tensor("x", (2, 5, 8), "float32"), Tensor("y", (5, 16), "float32")
    body = load(x, op("floordiv", c, index(8)), s, op("floormod", c, index(8)))
    normal = normalise((s, c), (flatten(body), address(y, (s, c))))
    assert [a.extent for a in normal.axes] == [5, 2, 8]
    assert "//" not in str(normal.exprs[0]) and "%" not in str(normal.exprs[0])


def test_a_coordinate_used_as_a_value_is_not_merged() -> None:
    i = axes(3, 4)
    x = Tensor("x", (3, 4), "float32")
    triangle = op("select", op("le", i[1], i[0]), load(x, *i), number(0, "float32"))
    assert len(normalise(i, (flatten(triangle), address(x, i))).axes) == 2


# ------------------------------------------------------------------------------------------------ pieces


def padded(low: int, high: int) -> Definition:
    """``y[i] = x[i - low]`` inside, 0 outside."""
    (i,) = axes(low + 10 + high)
    x = load(Tensor("x", (10,), "float32"), op("sub", i, index(low)))
    inside = op("and", op("le", index(low), i), op("lt", i, index(low + 10)))
    body = op("select", inside, x, number(0, "float32"))
    return Definition(Tensor("y", (i.extent,), "float32"), (i,), (), "", body, "")


def test_padding_is_cut_at_its_edges() -> None:
    parts = pieces(padded(3, 2))
    assert [(part.axes[0].extent, origin) for part, origin in parts] == [(3, (0,)), (10, (3,)), (2, (13,))]
    assert [str(part.body) for part, _ in parts] == ["0", "x[i0]", "0"]


def test_what_has_no_edges_stays_whole() -> None:
    i, j = axes(4, 4)
    x = Tensor("x", (4, 4), "float32")
    triangle = op("select", op("le", j, i), load(x, i, j), number(0, "float32"))
    definition = Definition(Tensor("y", (4, 4), "float32"), (i, j), (), "", triangle, "")
    assert pieces(definition) == [(definition, ())]
    assert len(pieces(padded(0, 0))) == 1


# ------------------------------------------------------------------------------------------------ planning


def softmax() -> Fragment:
    i, j, k = axis("i", 6), axis("j", 10), axis("k", 10)
    x, out = Tensor("x", (6, 10), "float32"), Tensor("out", (6, 10), "float32")
    top, e, total = (Tensor(n, s, "float32") for n, s in (("top", (6,)), ("e", (6, 10)), ("total", (6,))))
    return Fragment(
        (x, out),
        (
            Definition(top, (i,), (k,), "max", load(x, i, k), ""),
            Definition(e, (i, j), (), "", op("exp", op("sub", load(x, i, j), load(top, i))), ""),
            Definition(total, (i,), (k,), "sum", load(e, i, k), ""),
            Definition(out, (i, j), (), "", op("div", load(e, i, j), load(total, i)), ""),
        ),
    )


def chain(first: Expr, second: Callable[[Expr], Expr], over: Axis | None = None) -> Fragment:
    """``t[i] = first; out[i] = second(t[i])``, the second folded if an axis to fold is given."""
    (i,) = axes(8)
    t, out = Tensor("t", (8,), "float32"), Tensor("out", () if over else (8,), "float32")
    last = Definition(
        out, () if over else (i,), (over,) if over else (), "sum" if over else "", second(load(t, over or i)), ""
    )
    return Fragment((Tensor("x", (8,), "float32"), out), (Definition(t, (i,), (), "", first, ""), last))


def test_what_is_used_once_is_inlined() -> None:
    (i,) = axes(8)
    x = load(Tensor("x", (8,), "float32"), i)
    kept = inline(chain(op("exp", x), lambda t: op("mul", t, t)))
    assert [str(d) for d in kept] == ["out[i0] = (exp(x[i0]) * exp(x[i0]))"]


def test_padding_is_kept_apart_from_the_sum_that_reads_it() -> None:
    (i,), k = axes(8), axis("k", 8)
    x = load(Tensor("x", (8,), "float32"), op("sub", i, index(1)))
    padded = op("select", op("le", index(1), i), x, number(0, "float32"))
    assert len(inline(chain(padded, lambda t: t, k))) == 2


def test_a_dear_value_that_two_definitions_read_is_kept() -> None:
    assert [d.tensor.name for d in inline(softmax())] == ["top", "e", "total", "out"]


@pytest.mark.parametrize(("name", "kept"), [("div", 2), ("mul", 1)])
def test_what_is_read_more_often_than_there_is_of_it_is_kept_if_it_is_dear(name: str, kept: int) -> None:
    i, j = axes(8, 3)
    t, out = Tensor("t", (8,), "float32"), Tensor("out", (8, 3), "float32")
    x = load(Tensor("x", (8,), "float32"), i)
    rows = Definition(t, (i,), (), "", op(name, x, number(3, "float32")), "")
    repeated = Definition(out, (i, j), (), "", load(t, i), "")
    assert len(inline(Fragment((Tensor("x", (8,), "float32"), out), (rows, repeated)))) == kept


def test_a_softmax_is_one_group_over_its_rows() -> None:
    fragment = softmax()
    (group,) = make_groups(inline(fragment), frozenset(fragment.parameters))
    assert [a.extent for a in group.rows] == [6]
    phase = make_phase(group)
    assert [type(s).__name__ for s in phase.body if isinstance(s, Reduce | Store)] == ["Reduce", "Reduce", "Store"]
    assert phase.body[-1].tensor == flat(fragment.parameters[-1])  # type: ignore[union-attr]


def test_a_shifted_use_is_not_grouped() -> None:
    """``out[i] = t[i] - t[0]`` needs all of t first."""
    (i,) = axes(8)
    t, out = Tensor("t", (8,), "float32"), Tensor("out", (8,), "float32")
    first = Definition(t, (i,), (), "", op("exp", load(Tensor("x", (8,), "float32"), i)), "")
    second = Definition(out, (i,), (), "", op("sub", load(t, i), load(t, index(0))), "")
    assert len(make_groups((first, second), frozenset({out}))) == 2


def test_small_work_is_one_block_and_large_work_is_many() -> None:
    for extent, many in ((64, False), (64 * BLOCK, True)):
        (i,) = axes(extent)
        x, out = Tensor("x", (extent,), "float32"), Tensor("out", (extent,), "float32")
        (group,) = make_groups((Definition(out, (i,), (), "", load(x, i), ""),), frozenset({out}))
        (tile,) = make_phase(group).grid
        assert (tile.count > 1) == many


# ------------------------------------------------------------------------------------------------ numbers

NN = relax.op.nn
CASES: dict[str, tuple[tuple[int, ...], Callable[[relax.Var], relax.Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "exp": ((3, 100, 41), relax.op.exp, np.exp),
    "tanh of few": ((7,), relax.op.tanh, np.tanh),
    "transpose": ((50, 70), lambda x: relax.op.permute_dims(x, [1, 0]), lambda x: x.T),
    "heads": (
        (20, 48),
        lambda x: relax.op.permute_dims(relax.op.reshape(x, (20, 3, 16)), [1, 0, 2]),
        lambda x: x.reshape(20, 3, 16).transpose(1, 0, 2),
    ),
    "sum of rows": ((33, 100), lambda x: relax.op.sum(x, 1), lambda x: x.sum(1)),
    "sum of columns": ((33, 100), lambda x: relax.op.sum(x, 0), lambda x: x.sum(0)),
    "max of all": ((33, 100), relax.op.max, np.max),
    "mean of planes": ((4, 30, 9), lambda x: relax.op.mean(x, [0, 2]), lambda x: x.mean((0, 2))),
    "softmax": (
        (5, 77),
        lambda x: NN.softmax(x, -1),
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
    ),
    "concat": ((6, 10), lambda x: relax.op.concat([x, relax.op.negative(x)], 1), lambda x: np.concatenate([x, -x], 1)),
    "pad": ((6, 20), lambda x: NN.pad(x, [1, 0, 2, 3]), lambda x: np.pad(x, ((1, 0), (2, 3)))),
    "strided slice": (
        (6, 64),
        lambda x: relax.op.strided_slice(x, [1], [0], [64], [2]),
        lambda x: x[:, ::2],
    ),
    "pool": (
        (2, 3, 8, 8),
        lambda x: NN.max_pool2d(x, (2, 2), (2, 2)),
        lambda x: x.reshape(2, 3, 4, 2, 4, 2).max((3, 5)),
    ),
    "compare": ((9, 33), lambda x: relax.op.greater(x, relax.const(0.1, "float32")), lambda x: x > np.float32(0.1)),
}


@pytest.mark.parametrize("last_level", [32768, 0], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, last_level: int, target: CpuTarget) -> None:
    shape, body, expected = CASES[name]
    x = relax.Var("x", R.Tensor(shape, "float32"))
    assembly = assemble(legalised([x], lambda: body(x)), [], replace(target, l3_kb=last_level))
    assert "default" not in assembly.statistics()
    value = np.random.default_rng(1).standard_normal(shape, dtype="float32")
    result = run(assembly, value)
    assert result.dtype == expected(value).dtype
    np.testing.assert_allclose(result, expected(value), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("body", [relax.op.exp, lambda x: relax.op.permute_dims(x, [1, 0])], ids=["exp", "transpose"])
def test_a_result_larger_than_the_last_level_cache_is_written_past_it(
    body: Callable[[relax.Var], relax.Expr], target: CpuTarget
) -> None:
    x = relax.Var("x", R.Tensor((64, 128), "float32"))
    module = legalised([x], lambda: body(x))
    for last_level, wanted in ((31, True), (32, False)):
        text = str(assemble(module, [], replace(target, l3_kb=last_level)))
        assert ("nontemporal" in text) == ("sfence" in text) == (wanted and target.has_nontemporal)


def test_a_product_is_summed_up_in_cache(target: CpuTarget) -> None:
    x = relax.Var("x", R.Tensor((64, 128), "float32"))
    module = legalised([x], lambda: relax.op.matmul(relax.op.exp(x), relax.op.permute_dims(relax.op.exp(x), [1, 0])))
    assembly = assemble(module, [], replace(target, l3_kb=0))
    product = next(name for name, kind in assembly.schedules.items() if kind == "product")
    assert "nontemporal" not in assembly.module[product].script()


@pytest.mark.parametrize("groups, stride", [(1, 1), (1, 2), (4, 1)], ids=["plain", "strided", "depthwise"])
def test_convolutions(groups: int, stride: int, target: CpuTarget) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((8 if groups == 1 else 4, 4 // groups, 3, 3), dtype="float32")
    x = relax.Var("x", R.Tensor((2, 4, 9, 9), "float32"))
    module = legalised([x], lambda: NN.conv2d(x, relax.const(weight), (stride, stride), (1, 1, 1, 1), groups=groups))
    value = rng.standard_normal((2, 4, 9, 9), dtype="float32")
    expected = torch.nn.functional.conv2d(*map(torch.from_numpy, (value, weight)), None, stride, 1, 1, groups)
    assembly = assemble(module, [], target)
    assert "default" not in assembly.statistics()
    np.testing.assert_allclose(run(assembly, value), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_what_cannot_be_read_keeps_its_form(target: CpuTarget) -> None:
    from redfuser.frontend.kernels import cumulative_sum

    x = relax.Var("x", R.Tensor((2, 5, 3), "float32"))
    assembly = assemble(called([x], [cumulative_sum((2, 5, 3), "float32", False, False)]), [], target)
    assert assembly.statistics() == {"default": 1}
    value = np.random.default_rng(3).standard_normal((2, 5, 3), dtype="float32")
    np.testing.assert_allclose(run(assembly, value), value.cumsum(1), rtol=1e-5)
