"""Sizes that are known on the call only: their text in a script, and what can't be of such a size."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu import Refused, emit
from redfuser.codegen.gpu.emission.grid import launch
from redfuser.codegen.gpu.emission.open_sizes import Sizes, mappable
from redfuser.expr import Tensor, axis
from redfuser.extents import Dim, Extent, size_of
from redfuser.tile.ir import Tile
from tests.codegen.gpu.programs import Attention, program, softmax

BATCH, LENGTH = Dim("batch", 1, 4096), Dim("T", 1, 512)
B, L = size_of(BATCH), size_of(LENGTH)
SIZES = Sizes({BATCH: "batch", LENGTH: "T_1"})


@pytest.mark.parametrize(
    ("size", "text"),
    [(7, "7"), (B, "batch"), (12 * B * L, "(12 * T_1 * batch)"), (B * L + L + -1, "(T_1 * batch + T_1 + -1)")],
    ids=str,
)
def test_a_size_reads_as_one_operand(size: Extent, text: str) -> None:
    assert SIZES.text(size) == text


def test_a_script_takes_the_sizes_under_names_of_its_own() -> None:
    cascade = Attention(q_len=L, kv_len=L).cascade()
    [script] = emit(program(cascade, i=64, j=64))
    assert script.sizes == {"T_1": LENGTH}
    assert 'T_1 = T.dynamic("T_1")' in script.text and "q: T.Tensor((1, 2, T_1, 64)" in script.text
    assert "with T.Kernel(T.ceildiv(T_1, 64), 2, threads=128)" in script.text
    assert "T.Pipelined(T.ceildiv(T_1 - 0, 64), num_stages=2)" in script.text
    assert "< T_1" in script.text, "the last tile of either axis may be part of one"


def test_dimensions_are_not_called_as_words_of_cpp_are() -> None:
    cascade = softmax(size_of(new := Dim("new", 1, 512)), 300, "float16")
    [script] = emit(program(cascade, "resident"))
    assert script.sizes == {"new_1": new}


def test_blocks_of_open_axes_are_numbered_whatever_their_count() -> None:
    grid = [Tile(axis("b", B), 1), Tile(axis("h", 12), 1), Tile(axis("i", L), 64)]
    found = launch(grid, SIZES)
    assert found.extents == ("T.ceildiv(T_1, 64)", 12, "batch") and found.numbers == ("bz", "by", "bx")
    many = launch([Tile(axis("a", 100_000), 1), *grid], SIZES)
    assert many.extents == ("(1200000 * batch * T.ceildiv(T_1, 64))",)
    assert many.numbers[1:] == (
        "bx // (12 * T.ceildiv(T_1, 64)) % batch",
        "bx // T.ceildiv(T_1, 64) % 12",
        "bx % T.ceildiv(T_1, 64)",
    )


def test_what_a_block_would_hold_whole_is_refused() -> None:
    with pytest.raises(Refused, match=r"open-size: .*--dim fixes it .*j of T"):
        emit(program(softmax(8, L, "float16"), "resident"))


@pytest.mark.parametrize(
    ("shape", "item", "maps"),
    [((B, L, 64), 2, True), ((B, L), 2, False), ((B, L, 4), 2, False), ((L, 8), 2, True), ((B, 4 * L), 4, True)],
    ids=str,
)
def test_tensor_maps_need_strides_of_whole_units(shape: tuple[Extent, ...], item: int, maps: bool) -> None:
    assert mappable(Tensor("x", shape, "float32"), item) == maps
