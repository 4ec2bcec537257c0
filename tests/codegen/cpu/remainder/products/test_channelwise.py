"""Sums of products of bytes channel by channel, on every kind of processor."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te

from redfuser.codegen.cpu.module import assemble
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from tests.codegen.cpu.build import able, legalised, run
from tests.frontend.normalising.byte_graphs import quantised_again
from tests.frontend.running import loaded

RNG = np.random.default_rng(0)


def some(*shape: int, kind: type = np.uint8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def windows(x: te.Tensor, w: te.Tensor, stride: int, apart: int) -> te.Tensor:
    """``(batch, rows, columns, channels)`` of windows of an image, channels last."""
    high, wide, channels = (int(n) for n in w.shape)
    ky, kx = te.reduce_axis((0, high), "ky"), te.reduce_axis((0, wide), "kx")
    rows, columns = ((int(x.shape[a]) - (n - 1) * apart - 1) // stride + 1 for a, n in ((1, high), (2, wide)))
    return te.compute(
        (x.shape[0], rows, columns, channels),
        lambda b, i, j, c: te.sum(
            x[b, i * stride + ky * apart, j * stride + kx * apart, c].astype("int32") * w[ky, kx, c].astype("int32"),
            axis=[ky, kx],
        ),
        name="windows",
    )


def expected(x: np.ndarray, w: np.ndarray, stride: int, apart: int) -> np.ndarray:
    high, wide, _ = w.shape
    rows, columns = ((x.shape[a] - (n - 1) * apart - 1) // stride + 1 for a, n in ((1, high), (2, wide)))
    total = np.zeros((len(x), rows, columns, x.shape[3]), np.int32)
    for ky in range(high):
        for kx in range(wide):
            part = x[:, ky * apart :: stride, kx * apart :: stride][:, :rows, :columns]
            total += part.astype(np.int32) * w[ky, kx].astype(np.int32)
    return total


def assembled(x: np.ndarray, w: np.ndarray, name: str, stride: int = 1, apart: int = 1):
    variable = relax.Var("x", relax.TensorStructInfo(x.shape, x.dtype.name))

    def body() -> relax.Expr:
        return relax.BlockBuilder.current().emit_te(windows, variable, relax.const(w), stride, apart)

    return assemble(legalised([variable], body), [], able(name))


CASES = [
    ((1, 9, 8, 144), (3, 3), 1, 1),
    ((2, 9, 7, 64), (3, 3), 2, 1),
    ((1, 9, 11, 50), (5, 5), 1, 1),
    ((1, 8, 9, 20), (2, 3), 1, 2),
    ((1, 4, 9, 16), (1, 3), 1, 1),
    ((1, 3, 3, 32), (3, 3), 1, 1),
]


@pytest.mark.parametrize(("image", "window", "stride", "apart"), CASES)
@pytest.mark.parametrize("name", ["cpu-avx512", "cpu-avx2"])
def test_numbers(name: str, image: tuple[int, ...], window: tuple[int, int], stride: int, apart: int) -> None:
    x, w = some(*image), some(*window, image[-1], kind=np.int8)
    x[0, 0, 0], w[:, :, 0] = 255, -128
    for weight in (w, w.astype(np.int32)):
        assembly = assembled(x, weight, name, stride, apart)
        assert list(assembly.schedules.values()) == ["product"]
        np.testing.assert_array_equal(run(assembly, x), expected(x, w, stride, apart))


@pytest.mark.parametrize(
    ("x", "w"),
    [
        (some(1, 6, 6, 32), np.full((3, 3, 32), 128, np.int32)),  # more than a byte with a sign holds
        (some(1, 6, 6, 32, kind=np.int8), some(3, 3, 32, kind=np.int8)),
        (some(1, 6, 6, 8), some(3, 3, 8, kind=np.int8)),  # few channels
    ],
)
def test_what_is_summed_otherwise(x: np.ndarray, w: np.ndarray) -> None:
    assembly = assembled(x, w, "cpu-avx512")
    assert list(assembly.schedules.values()) == ["reduction"]
    np.testing.assert_array_equal(run(assembly, x), expected(x, w, 1, 1))


def test_a_convolution_is_one_kernel() -> None:
    """Windows of bytes, many times the image, never go through memory; here padding comes before, a turn after."""
    x, w = some(1, 40, 9, 8), some(40, 1, 3, 3)  # of zero point 128
    proto = quantised_again(x, w, group=40, pads=[1, 1, 1, 1])
    assembly = assemble(lower(loaded(proto), convolves_bytes=True).module, [], able("cpu-avx512"))
    assert list(assembly.schedules.values()) == ["product"]
    np.testing.assert_array_equal(run(assembly, x), run_onnxruntime(proto, {"x": x}, 1)["y"])
