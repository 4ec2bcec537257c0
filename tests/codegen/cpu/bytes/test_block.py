"""Products of bytes by AMX tiles and by VNNI vectors: every pair of signs, ragged sizes, packed now or on the call."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import tirx

from redfuser.codegen.cpu.bytes.amx import Tiles
from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.matrix import Matrix
from redfuser.codegen.cpu.bytes.pack import write_packing
from redfuser.codegen.cpu.bytes.panels import Panels
from redfuser.codegen.cpu.bytes.write import request_tiles, write_block
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import index
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import able

SIGNS = tuple(itertools.product(("int8", "uint8"), repeat=2))


def vnni() -> CpuTarget:
    return able("cpu-avx512")


def avx2() -> CpuTarget:
    return able("cpu-avx2")


def host() -> CpuTarget:
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    if not {"amx-int8", "avx512vnni"} <= set(target.features):
        pytest.skip("this processor has no AMX")
    return target


def extremes(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Bytes of all values, the limits among them often."""
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(7)
    some = generator.integers(limits.min, limits.max + 1, shape)
    some = np.where(generator.random(shape) < 0.2, limits.max, some)
    return np.where(generator.random(shape) < 0.2, limits.min, some).astype(dtype)


def product(left: np.ndarray, right: np.ndarray, target: CpuTarget, tiles: str, most: int = 0) -> np.ndarray:
    """``left · right`` of one block; the rows that fill the last tile hold rubbish.

    Args:
        tiles: ``granted``, ``refused``, ``absent``, or ``there`` without asking.
        most: rows that the block may have, where the number of rows is known on the call only.
    """
    rows, depth = left.shape
    panels = Panels(depth, right.shape[1], right.shape[1] // 16 * 16)
    room, pitch = rows if most else -(-rows // 16) * 16, panels.steps * 64 + 64
    wide = len(panels.starts) * 16
    padded = np.full((room, pitch), 77, left.dtype)
    padded[:rows, :depth] = left
    builder = Builder()
    shapes = ((room * pitch, left.dtype), (right.size, right.dtype), (room * wide, np.dtype("int32")))
    arrays = [tirx.decl_buffer((n,), str(t), f"p{k}") for k, (n, t) in enumerate(shapes)]
    packed = builder.allocate("packed", panels.size, str(right.dtype))
    write_packing(builder, Matrix(arrays[1], index(0), right.shape[1]), packed, panels)
    given = tirx.Var("rows", "int32")
    count = builder.named("count", given, most + 1) if most else None
    answers = {"absent": None, "there": tirx.const(True, "bool"), "refused": tirx.const(False, "bool")}
    granted = request_tiles(builder) if tiles == "granted" else answers[tiles]
    block = Block(
        Matrix(arrays[0], index(0), pitch),
        Matrix(packed, index(0), panels.panel_bytes),
        Matrix(arrays[2], index(0), wide),
        most or rows,
        len(panels.starts),
        panels.steps,
        far=bool(most),
        count=count,
    )
    write_block(builder, block, granted, target.has_vnni)
    function = tirx.PrimFunc([*arrays, given], builder.body()).with_attrs({"global_symbol": "f", "tirx.noalias": True})
    library = tvm.compile(tvm.IRModule({"f": function}), target=tvm.target.Target(target.llvm()))
    sums = tvm.runtime.tensor(np.zeros(room * wide, np.dtype("int32")))
    library["f"](*map(tvm.runtime.tensor, (padded.reshape(-1), right.reshape(-1))), sums, rows)
    found = sums.numpy().reshape(room, wide)[:rows]
    result = np.zeros((rows, right.shape[1]), np.int32)
    for panel, start in enumerate(panels.starts):
        result[:, start : start + 16] = found[:, panel * 16 : panel * 16 + 16]
    return result


def exact(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left.astype(np.int32) @ right.astype(np.int32)


@pytest.mark.parametrize(("a", "b"), SIGNS)
@pytest.mark.parametrize("tiles", ["granted", "refused"])
def test_tiles_multiply_bytes_of_all_signs(a: str, b: str, tiles: str) -> None:
    left, right = extremes((37, 130), a), extremes((130, 80), b)
    np.testing.assert_array_equal(product(left, right, host(), tiles), exact(left, right))


@pytest.mark.parametrize(("a", "b"), SIGNS)
def test_vectors_multiply_bytes_of_all_signs(a: str, b: str) -> None:
    left, right = extremes((13, 67), a), extremes((67, 48), b)
    np.testing.assert_array_equal(product(left, right, vnni(), "absent"), exact(left, right))


@pytest.mark.parametrize(("a", "b"), SIGNS)
@pytest.mark.parametrize(("rows", "depth", "columns"), [(13, 67, 48), (1, 64, 16), (37, 2100, 21)])
def test_pairs_multiply_bytes_of_all_signs(a: str, b: str, rows: int, depth: int, columns: int) -> None:
    left, right = extremes((rows, depth), a), extremes((depth, columns), b)
    np.testing.assert_array_equal(product(left, right, avx2(), "absent"), exact(left, right))


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 64, 16), (16, 3, 21), (33, 1200, 100), (64, 2048, 32)])
def test_sizes_that_no_tile_divides(rows: int, depth: int, columns: int) -> None:
    left, right = extremes((rows, depth), "uint8"), extremes((depth, columns), "int8")
    np.testing.assert_array_equal(product(left, right, host(), "granted"), exact(left, right))
    np.testing.assert_array_equal(product(left, right, host(), "refused"), exact(left, right))


@pytest.mark.parametrize(("a", "b"), SIGNS)
@pytest.mark.parametrize(("target", "height"), [(vnni, 8), (avx2, 4)])
def test_rows_counted_on_the_call(target: Callable[[], CpuTarget], height: int, a: str, b: str) -> None:
    for rows in range(1, 2 * height + 2):
        left, right = extremes((rows, 67), a), extremes((67, 48), b)
        found = product(left, right, target(), "absent", most=2 * height + 1)
        np.testing.assert_array_equal(found, exact(left, right), err_msg=str(rows))
    left, right = extremes((height - 1, 2100), a), extremes((2100, 16), b)
    np.testing.assert_array_equal(product(left, right, target(), "absent", most=height - 1), exact(left, right))


@pytest.fixture(scope="module")
def emulated_tiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    """Instructions for tiles as calls of what does the same, on any processor."""
    compiler = shutil.which("gcc") or pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("tiles") / "tiles.so"
    source = Path(__file__).with_name("tiles.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, source], check=True)

    def call(self: Tiles, name: str, *arguments: tirx.PrimExpr) -> None:
        self.builder.emit(tirx.Evaluate(tirx.call_extern("void", f"emulated_{name}", *arguments)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tiles, "_call", call)
        yield ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@pytest.mark.parametrize(("a", "b"), SIGNS)
@pytest.mark.parametrize(("rows", "most"), [(1, 1), (5, 9), (15, 40), (16, 40), (17, 40), (33, 40), (40, 40), (37, 0)])
def test_emulated_tiles(emulated_tiles: ctypes.CDLL, a: str, b: str, rows: int, most: int) -> None:
    """Rows counted on the call, or before; the depth in two parts."""
    left, right = extremes((rows, 600), a), extremes((600, 48), b)
    np.testing.assert_array_equal(product(left, right, vnni(), "there", most), exact(left, right))
    assert ctypes.c_int.in_dll(emulated_tiles, "faults").value == 0


def test_packing_now_is_packing_on_the_call() -> None:
    matrix, panels = extremes((70, 90), "int8"), Panels(70, 90, 32)
    builder = Builder()
    arrays = [tirx.decl_buffer((n,), "int8", f"p{n}") for n in (matrix.size, panels.size)]
    write_packing(builder, Matrix(arrays[0], index(0), 90), arrays[1], panels)
    function = tirx.PrimFunc(arrays, builder.body()).with_attrs({"global_symbol": "f", "tirx.noalias": True})
    library = tvm.compile(tvm.IRModule({"f": function}), target=tvm.target.Target(load_target("cpu").llvm()))
    packed = tvm.runtime.tensor(np.full(panels.size, 99, np.int8))
    library["f"](tvm.runtime.tensor(matrix.reshape(-1)), packed)
    np.testing.assert_array_equal(packed.numpy(), panels.pack(matrix))


def test_blocks_that_are_no_panels_are_refused() -> None:
    for columns, block in ((64, 24), (15, 15), (30, 32)):
        with pytest.raises(ValueError, match="aren't panels"):
            Panels(64, columns, block)
