"""What kernels are timed on: where arrays lie, what they hold, and whose turn it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from redfuser.tuning.timing.measure import ALIGNMENT, PAGE, Arrays, roomy, rotated


def argument(dtype: str, *shape: int) -> dict[str, Any]:
    """As a job tells it."""
    return {"dtype": dtype, "shape": shape}


def address(array: Any) -> int:
    """Where an array begins."""
    return int(np.from_dlpack(array).ctypes.data)


def places(arrays: Arrays, turns: int = 16) -> list[int]:
    """Where one argument begins in its page, by turn."""
    return [address(arrays.get(argument("float32", 3, 700), 0, False, turn)) % PAGE for turn in range(turns)]


def test_arrays_move_within_a_page_the_same_way_in_every_run() -> None:
    first = places(Arrays(0, tvm.cpu()))
    assert first == places(Arrays(0, tvm.cpu())) != places(Arrays(1, tvm.cpu()))
    assert len(set(first)) > 8 and not any(place % ALIGNMENT for place in first)


def test_two_arguments_move_apart() -> None:
    arrays = Arrays(0, tvm.cpu())
    distances = set()
    for turn in range(16):
        read, written = (arrays.get(argument("float32", 700), place, place == 1, turn) for place in (0, 1))
        distances.add((address(written) - address(read)) % PAGE)
    assert len(distances) > 8


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (5, 1000)])
def test_moved_or_not_they_hold_what_they_should(dtype: str, shape: tuple[int, ...]) -> None:
    arrays = Arrays(0, tvm.cpu())
    for turn in range(3):
        read = arrays.get(argument(dtype, *shape), 0, False, turn)
        written = arrays.get(argument(dtype, *shape), 1, True, turn)
        assert (str(read.dtype), tuple(read.shape)) == (dtype, shape) == (str(written.dtype), tuple(written.shape))
        values = read.numpy().astype(np.float64)
        assert np.isfinite(values).all() and (values.size < 100 or values.any())
        assert not written.numpy().astype(np.float64).any()


def test_a_view_that_ends_behind_an_array_sees_its_beginning_again() -> None:
    values = np.arange(2000, dtype=np.float32)
    room = roomy(values).view(np.float32)
    assert room.ctypes.data % PAGE == 0 and (room[:2000] == values).all() and (room[2000:] == values[:1024]).all()


def test_each_comes_first_in_turn() -> None:
    assert [rotated([1, 2, 3], turn) for turn in range(4)] == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert rotated([], 5) == []
