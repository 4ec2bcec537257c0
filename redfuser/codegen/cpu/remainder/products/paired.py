"""Products of bfloat16 by the instruction that adds two of them to each lane of float32 (AVX-512 BF16).

It takes subnormal numbers as zero, and gives zero for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.remainder.flat import stride
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Axis, Expr, Load, Op
from redfuser.extents import is_symbolic
from redfuser.indexing import linear
from redfuser.targets import CpuTarget

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: Summands that are multiplied at once; lanes of the vector of their sums.
PAIR, LANES = 2, 16

#: TVM takes vectors of bfloat16 apart before LLVM sees them: they exist inside a function of LLVM's own language only.
NAME = "redfuser_add_bfloat16_pairs"
DEFINITION = f"""declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @{NAME}(<16 x float> %total, <16 x i32> %left, <16 x i32> %right) alwaysinline {{
  %a = bitcast <16 x i32> %left to <32 x bfloat>
  %b = bitcast <16 x i32> %right to <32 x bfloat>
  %sum = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %total, <32 x bfloat> %a, <32 x bfloat> %b)
  ret <16 x float> %sum
}}
"""


def multiplies_pairs(work: Contraction, tiling: Tiling, target: CpuTarget) -> bool:
    """Whether a product with a constant right factor is one of pairs of bfloat16 that lie side by side in memory."""
    left, right = (stored_bfloat16(factor) for factor in (work.left, work.right))
    if not target.multiplies_bfloat16 or left is None or right is None or len(work.reduced) != 1:
        return False
    (over,) = work.reduced
    if is_symbolic(over.extent) or over.extent % PAIR or tiling.lanes != LANES:
        return False
    form = linear(left.indices[0])
    return stride(form, over) == 1 and all(isinstance(atom, Axis) for atom, _ in form.terms)


def stored_bfloat16(factor: Expr) -> Load | None:
    """The element of a tensor of bfloat16 that a factor is."""
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "cast" else factor
    return inner if isinstance(inner, Load) and inner.dtype == "bfloat16" else None


def add_pairs(builder: Builder, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """``total`` plus both products of each pair, whose bits are those of an int32."""
    from tvm.tirx import call_pure_extern

    builder.define(NAME, DEFINITION)
    return call_pure_extern(str(total.dtype), NAME, total, left, right)
