"""Quantised products as kernels: by tiles, by vectors, and by neither; weights packed now or on the call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from redfuser.algebra import derive
from redfuser.codegen.cpu import compile_kernel, generate
from redfuser.codegen.cpu.bytes.products import packable, products_of, take_out
from redfuser.extents import Dim, Extent, size_of
from redfuser.targets import CpuTarget
from redfuser.tile import build, default_schedule
from redfuser.tile.ir import TileProgram
from tests.codegen.cpu.build import able
from tests.tile.build import quantised_product

SHAPES = [(1, 64, 16), (7, 100, 40), (37, 130, 50), (300, 64, 160), (700, 64, 80), (40, 4160, 48), (19, 4200, 112)]


def program_for(rows: Extent, depth: int, columns: int, target: CpuTarget) -> TileProgram:
    cascade = quantised_product(rows, depth, columns)
    derivation = derive(cascade)
    return build(cascade, derivation, default_schedule(cascade, derivation, target).schedule)


def data(rows: int, depth: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(rows)
    x = generator.standard_normal((rows, depth), dtype=np.float32)
    return x, generator.integers(-128, 128, (depth, columns), dtype=np.int8)


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    return (np.round(x / scale).astype(np.int32) @ w.astype(np.int32)).astype(np.float32) * scale


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["cpu", "cpu-avx512", "cpu-avx2", "cpu-x86-64"])
def test_every_processor_gives_the_same_numbers(name: str, shape: tuple[int, int, int]) -> None:
    target = able(name)
    program, (x, w) = program_for(*shape, target), data(*shape)
    # A single row is no matrix.
    assert bool(products_of(take_out(program))) == (target.multiplies_bytes and shape[0] > 1)
    (y,) = compile_kernel(generate(program, target), target)(x, w)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-6)


@pytest.mark.parametrize("name", ["cpu", "cpu-avx512", "cpu-avx2", "cpu-x86-64"])
def test_any_number_of_rows(name: str) -> None:
    target, (depth, columns) = able(name), (130, 48)
    program = program_for(size_of(Dim("rows", 1, 700)), depth, columns, target)
    assert bool(products_of(take_out(program))) == target.multiplies_bytes
    kernel = compile_kernel(generate(program, target), target)
    for rows in (1, 2, 3, 5, 15, 16, 17, 31, 64, 65, 100, 257, 700):
        x, w = data(rows, depth, columns)
        (y,) = kernel(x, w, rows=rows)
        np.testing.assert_allclose(y, expected(x, w), rtol=1e-6, err_msg=str(rows))


def test_a_kernel_takes_a_packed_weight() -> None:
    target, shape = able("cpu-avx512"), (20, 70, 96)
    program, (x, w) = program_for(*shape, target), data(*shape)
    ((tensor, panels),) = packable(program).items()
    kernel = compile_kernel(generate(replace(program, name="packed"), target, {tensor}), target)
    arguments = [tvm.runtime.tensor(a) for a in (x, panels.pack(w), np.zeros((20, 96), np.float32))]
    kernel.run(*arguments)
    np.testing.assert_allclose(arguments[-1].numpy(), expected(x, w), rtol=1e-6)


def test_code_for_tiles_asks_for_them_and_has_a_way_without() -> None:
    target = replace(able("cpu-avx512"), features=("amx-int8", "amx-tile", "avx512vnni"))
    assembly = compile_kernel(generate(program_for(64, 128, 64, target), target), target).assembly()
    assert all(name in assembly for name in ("syscall", "tdpbssd", "ldtilecfg", "tilerelease", "vpdpbusd"))
