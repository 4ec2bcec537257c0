"""What is brought closer while a row is computed on, how close, and that it stands beside the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.stmt_functor import post_order_visit

from redfuser.codegen.cpu import generate
from redfuser.expr import Tensor, axis, load, op
from redfuser.targets import CpuTarget
from tests.codegen.cpu.programs import assert_matches, run, target
from tests.tile.build import Attention, Rows, program, random_inputs, value


def small_caches() -> CpuTarget:
    """A second-level cache of one KB, a last level that holds every test's arrays."""
    return replace(target("cpu-avx2"), l2_kb=1)


def function(cascade: str, length: int, device: CpuTarget, tile: int = 4096) -> tirx.PrimFunc:
    """A resident kernel of 40 rows."""
    rows = Rows(axis("i", 40), axis("l", length))
    return generate(program(getattr(rows, cascade)(), "resident", 1, "l", l=tile), device)


def prefetches(node: Any) -> Iterator[tuple[str, int, int]]:
    """Of every prefetch in a statement: the array, whether it will be written, how close it is brought (3: closest)."""
    found: list[Any] = []
    post_order_visit(node, lambda n: found.append(n) if isinstance(n, tirx.Call) and len(n.args) == 5 else None)
    for call in found:
        place = call.args[1]
        if isinstance(place, tirx.Call) and place.op.name == "tirx.address_of":
            yield place.args[0].buffer.name, int(call.args[2]), int(call.args[3])


def test_large_rows_are_prefetched_and_small_ones_not() -> None:
    assert not list(prefetches(function("softmax", 1024, target("cpu-avx2")).body))
    assert list(prefetches(function("softmax", 1024, small_caches()).body))


@pytest.mark.parametrize(("length", "closeness"), [(256, 3), (1024, 2)])
def test_long_rows_are_read_ahead_of_into_the_second_level_only(length: int, closeness: int) -> None:
    found = {
        (array, written, close)
        for array, written, close in prefetches(function("softmax", length, small_caches()).body)
    }
    assert found == {("x", 0, closeness), ("y0", 1, 3)}


@pytest.mark.parametrize("cascade", ["softmax", "logsumexp", "variance", "layer_norm"])
def test_a_prefetch_stands_in_the_loop_that_computes(cascade: str) -> None:
    loops: list[Any] = []
    post_order_visit(
        function(cascade, 1024, small_caches()).body,
        lambda n: loops.append(n) if isinstance(n, tirx.For) and n.kind == tirx.ForKind.SERIAL else None,
    )
    innermost = [loop for loop in loops if not any(inner is not loop and _holds(loop, inner) for inner in loops)]
    reading = [loop for loop in innermost if any(not written for _, written, _ in prefetches(loop))]
    assert reading and all(_computes(loop) for loop in reading)


def _holds(loop: tirx.For, inner: tirx.For) -> bool:
    found: list[Any] = []
    post_order_visit(loop.body, lambda n: found.append(n) if isinstance(n, tirx.For) else None)
    return any(n.same_as(inner) for n in found)


def _computes(loop: tirx.For) -> bool:
    found: list[Any] = []
    post_order_visit(loop, lambda n: found.append(n) if isinstance(n, tirx.BufferStore) else None)
    return bool(found)


def test_nothing_is_prefetched_of_what_is_written_past_the_caches() -> None:
    found = {
        array for array, written, _ in prefetches(function("softmax", 1024, replace(small_caches(), l3_kb=1)).body)
    }
    assert found == {"x"}


def test_prefetching_changes_nothing() -> None:
    cascade = Rows(axis("i", 3000), axis("l", 1000)).layer_norm()
    inputs = random_inputs(cascade)
    got = run(program(cascade, "resident", 1, "l", l=1000), inputs)["y0"]
    x = inputs["x"].astype(np.float64)
    exact = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * inputs["gain"]
    np.testing.assert_allclose(got, exact, atol=1e-5)


def decoding(device: CpuTarget, queries: int = 1, dim: int = 16, v_dim: int = 16) -> set[tuple[str, int, int]]:
    """What attention of some queries, all in one tile, to 256 keys prefetches."""
    attention = Attention(q_len=queries, kv_len=256, dim=dim, v_dim=v_dim, mask="none").cascade()
    return set(prefetches(generate(program(attention, "single-segment", i=queries, j=32), device).body))


def test_decoding_brings_values_while_it_reads_keys_and_the_next_keys_while_it_reads_values() -> None:
    assert decoding(replace(small_caches(), l3_kb=63)) == {("k", 0, 2), ("v", 0, 2)}


def test_matrices_are_not_prefetched_that_fit_the_last_cache_or_have_rows_of_other_lengths() -> None:
    """Keys and values of both groups are 64 KiB."""
    device = replace(small_caches(), l3_kb=63)
    assert decoding(device)
    assert not decoding(replace(device, l3_kb=64))
    assert not decoding(device, v_dim=24)


def test_matrices_that_are_multiplied_are_read_ahead_of_by_their_products_alone() -> None:
    device = replace(small_caches(), l3_kb=63)
    assert decoding(device, queries=18) == decoding(replace(device, l3_kb=64), queries=18)


@pytest.mark.parametrize("keys", [33, 8000, 8192])
def test_prefetching_matrices_changes_nothing(keys: int) -> None:
    attention = Attention(groups=2, q_len=1, kv_len=keys, dim=48, v_dim=48)
    made = program(attention.cascade(), "single-segment", j=64)
    device = replace(target("cpu"), l3_kb=0)
    assert prefetches(generate(made, device).body)
    assert_matches(made, attention.inputs(), device)


def test_booleans_are_left_where_they_lie() -> None:
    """TVM compiles no address of one."""
    rows = Rows(axis("i", 40), axis("l", 1024))
    mask = load(Tensor("mask", (40, 1024), "bool"), rows.row, rows.item)
    kept = op("select", mask, rows.x, value(-1.0))
    largest = rows.reduction("m", "max", kept)
    weight = op("exp", op("sub", kept, largest.value))
    total = rows.reduction("t", "sum", weight)
    cascade = rows.cascade("softmax_0", (largest, total), op("div", weight, total.value))
    made = program(cascade, "resident", 1, "l", l=4096)
    assert {array for array, _, _ in prefetches(generate(made, small_caches()).body)} == {"x", "y0"}
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((40, 1024)).astype("f4"), "mask": rng.random((40, 1024)) < 0.5}
    assert_matches(made, inputs, small_caches())
