"""Scripts to be read, and programs that can't become one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu import Refused, emit
from redfuser.codegen.gpu.emission.expressions import Writer
from redfuser.expr import INDEX, Expr, Load, Tensor, cast, load, number, op, transform
from redfuser.options import Fp32
from tests.codegen.gpu.programs import Attention, program, quantised_product, scaled_product, softmax
from tests.golden import Golden

FP32: tuple[Fp32, ...] = ("tf32", "3xtf32", "ieee")


@pytest.mark.parametrize(("tile", "threads"), [(128, 256), (64, 128)])
def test_attention(tile: int, threads: int, golden: Golden) -> None:
    cascade = Attention(heads=4, groups=2, q_len=200, kv_len=300, dim=128, v_dim=128, mask="bool").cascade()
    options = {"threads": threads, "stages": 2}
    [script] = emit(program(cascade, options=options, i=tile, j=tile))
    golden.check(f"gpu_attention_{tile}.txt", str(script).rstrip("\n"))


def test_whole_tiles_need_no_guards() -> None:
    [script] = emit(program(Attention(q_len=128, kv_len=256).cascade(), i=128, j=128))
    assert "if_then_else(j_step" not in script.text and "if i" not in script.text


def test_a_tile_that_is_not_whole_on_chip_is_refused() -> None:
    with pytest.raises(Refused, match="tile-size"):
        emit(program(Attention().cascade(), i=96, j=64))


def test_products_of_float32_as_asked_for() -> None:
    tiles = program(Attention(dtype="float32").cascade(), i=64, j=64)
    products = {fp32: emit(tiles, fp32)[0].text.count("T.gemm(") for fp32 in FP32}
    assert products == {"tf32": 2, "3xtf32": 6, "ieee": 0}
    assert {fp32: emit(tiles, fp32)[0].products for fp32 in FP32} == {fp32: (fp32,) for fp32 in FP32}


def test_scores_of_float32_are_declared_for_groups_of_warps() -> None:
    tiles = program(Attention(dtype="float32").cascade(), i=64, j=64)
    [groups], [alone] = emit(tiles, groups=True), emit(tiles)
    changed = [
        line for line, other in zip(groups.text.splitlines(), alone.text.splitlines(), strict=True) if line != other
    ]
    assert [line.split()[0].rstrip(":") for line in changed] == ["q", "k", "q_tile", "k_shared"]
    assert all(line.rstrip(",").endswith("T.tfloat32)") for line in changed)


def test_others_stay_with_single_warps() -> None:
    attention = Attention(dtype="float32").cascade()
    crossed = _with_keys_crossed(attention)
    for tiles, fp32 in (
        (program(attention, options={"threads": 32}, i=32, j=64), "tf32"),  # too few rows, a warp
        (program(attention, options={"threads": 64}, i=64, j=64), "tf32"),  # half a group
        (program(attention, options={"by-columns": 1}, i=64, j=64), "tf32"),
        (program(attention, i=64, j=64), "3xtf32"),  # parts of what is in memory
        (program(crossed, i=64, j=64), "tf32"),  # keys lie across the axis summed
        (program(Attention().cascade(), i=64, j=64), "tf32"),  # in half precision anyway
    ):
        [script] = emit(tiles, fp32, groups=True)
        assert "tfloat32" not in script.text, script


def _with_keys_crossed(cascade: Cascade) -> Cascade:
    """Attention whose keys are stored with their features first."""
    [dot], k = cascade.producers, next(tensor for tensor in cascade.inputs if tensor.name == "k")
    b, h, j, d = k.shape
    crossed = Tensor("k", (b, h, d, j), k.dtype)

    def rule(node: Expr) -> Expr:
        if isinstance(node, Load) and node.tensor == k:
            first, second, row, feature = node.indices
            return load(crossed, first, second, feature, row)
        return node

    inputs = tuple(crossed if tensor == k else tensor for tensor in cascade.inputs)
    return replace(cascade, inputs=inputs, producers=(replace(dot, map=transform(dot.map, rule)),))


def test_half_precision_is_multiplied_as_it_is() -> None:
    tiles = program(Attention().cascade(), i=64, j=64)
    assert emit(tiles, "ieee") == emit(tiles)
    assert emit(tiles)[0].products == ("float16",)


def test_integers_are_summed_as_integers() -> None:
    cascade = quantised_product(64, 128, 64, "int8", 127.0)
    [script] = emit(program(cascade, "resident", i=64, j=64))
    assert 'g_int32 = T.alloc_fragment((64, 64), "int32")' in script.text


def test_row_values_do_not_decide_how_a_merge_shares_out_its_matrix() -> None:
    cascade = Attention(heads=1, q_len=16, kv_len=512).cascade()
    _, merge = emit(program(cascade, "multi-segment", segments=2, i=16, j=64))
    assert 'o_0 = T.alloc_fragment((16, 64), "float32")' in merge.text
    assert 't = T.alloc_shared((16,), "float32")' in merge.text
    [whole] = emit(program(cascade, i=16, j=64))
    assert "t = T.alloc_fragment(" in whole.text


@pytest.mark.parametrize(("scale", "met"), [("largest", "a_0_shared"), ("sqrt", "sqrt")])
def test_rows_folded_from_memory_pass_to_a_product_through_shared_memory(scale: str, met: str) -> None:
    tiles = program(scaled_product(64, 64, 64, "float32", scale), i=64, j=64)
    for fp32 in ("tf32", "3xtf32"):
        [script] = emit(tiles, fp32)
        assert f'{met} = T.alloc_shared((64,), "float32")' in script.text
        assert 'a_0 = T.alloc_fragment((64,), "float32")' in script.text


def test_rows_that_lie_as_a_product_does_stay_in_registers() -> None:
    [alone] = emit(program(scaled_product(64, 64, 64, "float32", "sqrt"), i=64, j=64), "ieee")
    assert 'sqrt = T.alloc_fragment((64,), "float32")' in alone.text, "no tensor cores, whose layout is given"
    [scores] = emit(program(Attention(heads=1).cascade(), i=64, j=64))
    assert 't = T.alloc_fragment((64,), "float32")' in scores.text, "folded from a product"


def test_a_product_of_three_axes_is_refused() -> None:
    with pytest.raises(Refused, match="two axes with several points"):
        emit(program(Attention(heads=4).cascade(), h=4, i=64, j=64))


def test_a_largest_magnitude_hands_on_nan_which_a_softmax_does_by_its_sum() -> None:
    quantised = quantised_product(64, 128, 64, "float8_e4m3fn", 448.0)
    [script] = emit(program(quantised, "resident", i=64, j=64))
    assert "T.isnan(" in script.text and 'T.float32(float("nan"))' in script.text
    [script] = emit(program(softmax(64, 100, "float16"), "resident", i=4))
    assert "T.isnan(" not in script.text


def text_of(expr: Expr) -> str:
    return Writer(str, lambda read: f"{read.tensor.name}[{read.indices[0]}]", fast=False).text(expr)


def test_a_quantised_number_is_held_within_its_type_by_functions_that_drop_a_nan() -> None:
    x = load(Tensor("x", (4,), "float32"), number(0, INDEX))
    held = op("min", op("max", x, number(0, "float32")), number(255, "float32"))
    assert text_of(cast(held, "uint8")) == 'T.cast(T.min(T.max(x[0], T.float32(0.0)), T.float32(255.0)), "uint8")'
    assert text_of(cast(x, "int8")) == 'T.cast(x[0], "int8")'
    least = 'T.if_then_else(T.isnan(x[0]), T.int32(-2147483648), T.cast(x[0], "int32"))'
    assert text_of(cast(x, "int32")) == least
