"""Which results are written past the caches, and which are refused."""

from __future__ import annotations

from dataclasses import replace

from redfuser.codegen.cpu.lowering.uncached import uncached
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis, Expr, Tensor, axis, index, load, op
from redfuser.extents import Dim, Extent, size_of
from redfuser.tile.ir import Phase, Statement, Store, Stream, Tile, TileProgram
from tests.codegen.cpu.programs import target

ROWS, LENGTH = axis("i", 40), axis("l", 64)
X, Y = Tensor("x", (40, 64), "float32"), Tensor("y", (40, 64), "float32")


def program(*body: Statement, output: Tensor = Y, row: Axis = ROWS, more: tuple[Phase, ...] = ()) -> TileProgram:
    phase = Phase((Tile(row, 1),), (), body)
    return TileProgram("p", (X,), (output,), (), (phase, *more))


def store(tensor: Tensor = Y, row: Axis = ROWS, along: Axis = LENGTH, value: Expr | None = None) -> Store:
    return Store(tensor, (row, along), (row, along), value or load(X, ROWS, LENGTH))


def found(wanted: TileProgram, device: str = "cpu-avx2", l3_kb: int = 1) -> set[str]:
    """Names of what the first phase writes past the caches."""
    machine = Machine.of(replace(target(device), l3_kb=l3_kb))
    return {tensor.name for tensor in uncached(wanted.phases[0], wanted.phases, wanted.outputs, machine)}


def of_shape(rows: Extent, length: int) -> TileProgram:
    """Rows stored one after another."""
    row, along = axis("i", rows), axis("l", length)
    output = Tensor("y", (rows, length), "float32")
    return program(store(output, row, along, load(X, index(0), index(0))), output=output, row=row)


def test_what_exceeds_the_last_level_cache() -> None:
    assert found(program(store())) == {"y"}
    assert found(program(store()), l3_kb=10) == set()  # of exactly 10 KB
    assert found(program(store()), l3_kb=9) == {"y"}


def test_configured_targets_write_large_results_so() -> None:
    rows = 1 + (target("cpu-avx2").l3_kb * 1024) // (4 * 1024)
    for device in ("cpu-avx2", "cpu-avx512", "cpu-x86-64"):
        assert found(of_shape(rows, 1024), device, target(device).l3_kb) == {"y"}
        assert found(of_shape(rows - 1, 1024), device, target(device).l3_kb) == set()


def test_an_arm_processor_has_hints_only() -> None:
    assert found(program(store()), "cpu-aarch64") == set()


def test_types_without_such_a_store() -> None:
    for dtype, wanted in (("float64", {"y"}), ("bfloat16", {"y"}), ("float16", set()), ("bool", set())):
        output = replace(Y, dtype=dtype)
        assert found(program(store(output), output=output)) == wanted


def test_an_open_size_may_be_small() -> None:
    assert found(of_shape(size_of(Dim("n", 1, 4096)), 64)) == set()


def test_rows_must_begin_at_lines() -> None:
    assert found(of_shape(400, 60)) == set()
    assert found(of_shape(400, 48)) == {"y"}


def test_the_last_axis_must_be_adjacent() -> None:
    across = Store(Y, (LENGTH, ROWS), (ROWS, LENGTH), load(X, ROWS, LENGTH))
    assert found(program(across)) == set()


def test_tiles_must_be_whole_lines() -> None:
    for tile, wanted in ((16, {"y"}), (8, set()), (64, {"y"})):
        stream = Stream(LENGTH, tile, (store(),), index(0), index(64))
        assert found(program(stream)) == wanted


def test_positions_must_be_affine() -> None:
    half = op("floordiv", ROWS, index(2))
    assert found(program(Store(Y, (ROWS, LENGTH), (half, LENGTH), load(X, ROWS, LENGTH)))) == set()


def test_a_result_that_is_read_stays() -> None:
    z = Tensor("z", (40, 64), "float32")
    reading = Phase((Tile(ROWS, 1),), (), (store(z, value=load(Y, ROWS, LENGTH)),))
    both = replace(program(store(), more=(reading,)), outputs=(Y, z))
    assert found(both) == set()


def test_a_result_that_is_written_twice_stays() -> None:
    assert found(program(store(), store())) == set()


def test_a_workspace_stays() -> None:
    workspace = replace(Y, name="w")
    assert found(replace(program(store(workspace)), workspaces=(workspace,))) == set()
