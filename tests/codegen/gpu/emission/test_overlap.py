"""Loops whose tiles TileLang would let be overwritten too early aren't overlapped."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu import emit
from redfuser.codegen.gpu.emission.overlap import overwritten_early
from tests.codegen.gpu.programs import byte_product, program

COPY, FILL = "T.copy(x[0:64, k * 64:k * 64 + 64], x_tile)", "    w_tile[n, j] = w[k * 64 + j, n]"
CONVERT, PRODUCT = "    operand[i, j] = T.cast(x_tile[i, j], 'int8')", "T.gemm(operand, w_tile, g)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((COPY, CONVERT, FILL, PRODUCT), True),  # the weights' tile is read after the last copied one
        ((COPY, FILL, "T.gemm(x_tile, w_tile, g)"), False),  # with it
        ((FILL, COPY, "T.gemm(z, w_tile, g)", CONVERT), False),  # before it
        ((COPY, CONVERT, "T.gemm(operand, x_tile, g)"), False),  # nothing is filled from memory
        ((FILL, PRODUCT), False),  # nothing is copied, so no warps are set apart
        ((COPY, CONVERT, "    w_tile[n, j] = w[k, j] * scale[n]", PRODUCT), False),  # needs what is on chip
    ],
)
def test_tiles_read_after_the_copied_ones(body: tuple[str, ...], expected: bool) -> None:
    assert overwritten_early(body, {"x", "w"}, {"x_tile", "w_tile", "operand", "scale"}) is expected


def test_bytes_with_a_high_bit_beside_weights_in_another_order() -> None:
    [script] = emit(program(byte_product(64, 256, 64, "uint8"), i=64, n=64, j=128))
    assert "T.serial(2)" in script.text and "T.Pipelined(" not in script.text
