"""What a register tile reads of both factors, and how it adds their products: one summand at a time, or a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from redfuser.codegen.cpu.lowering.region import Region, whole
from redfuser.codegen.cpu.remainder.kernel import Kernel
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.codegen.cpu.remainder.products.paired import LANES, PAIR, add_pairs, stored_bfloat16
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import matched
from redfuser.expr import Expr, Tensor, axis, cast, index, load, op, substitute
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


class Multiplier(Protocol):
    """Writes the innermost step of a product."""

    def left(self, place: Region) -> PrimExpr:
        """What all columns of a row share."""

    def right(self, places: Region, panel: Expr, vector: Expr) -> PrimExpr:
        """What a vector of columns multiplies it by."""

    def add(self, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
        """A vector of sums with the products added."""


def multiplier_of(kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | None) -> Multiplier:
    """By pairs where the right factor is packed for them."""
    if packing is not None and packing.together == PAIR:
        return Pairs(kernel, work, packing)
    return Singles(kernel, work, tiling, packing)


@dataclass(frozen=True)
class Singles:
    """Elements of the type they are summed in, whatever they are computed from."""

    kernel: Kernel
    work: Contraction
    tiling: Tiling
    packing: Packing | None

    def left(self, place: Region) -> PrimExpr:
        return self.kernel.translator.value(self.work.left, place)

    def right(self, places: Region, panel: Expr, vector: Expr) -> PrimExpr:
        tiling, packing, translator = self.tiling, self.packing, self.kernel.translator
        first = op("mul", vector, index(tiling.lanes))
        if packing is None:
            region = places.along(self.work.column, first, tiling.lanes)
            return matched(translator.value(self.work.right, region), tiling.lanes)
        column = axis("column", tiling.width)
        where = op("add", packing.address(places.points(), panel), column)
        if packing.strip < tiling.width:
            where = op("add", where, op("mul", vector, index(packing.strip_size - packing.strip)))
        region = Region({**places.spans, column: whole(column)}).along(column, first, tiling.lanes)
        return translator.value(cast(load(packing.tensor, where), self.work.right.dtype), region)

    def add(self, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
        return total + left * right


@dataclass(frozen=True)
class Decoded(Singles):
    """Numbers of a part of a panel, row by row, that were decoded before.

    Args:
        array: holds them, flat.
        first: number of the first row.
    """

    array: Tensor
    first: Expr

    def right(self, places: Region, panel: Expr, vector: Expr) -> PrimExpr:
        (over,), column = self.work.reduced, axis("column", self.tiling.width)
        row = op("sub", places.point(over), self.first)
        where = op("add", op("mul", row, index(self.tiling.width)), column)
        first = op("mul", vector, index(self.tiling.lanes))
        region = Region({**places.spans, column: whole(column)}).along(column, first, self.tiling.lanes)
        return self.kernel.translator.value(load(self.array, where), region)


@dataclass(frozen=True)
class Pairs:
    """Bits of two elements of bfloat16 that lie side by side, as one of int32."""

    kernel: Kernel
    work: Contraction
    packing: Packing

    def left(self, place: Region) -> PrimExpr:
        element = stored_bfloat16(self.work.left)
        assert element is not None
        return self._bits(element.tensor, substitute(element.indices[0], place.points()), 1)

    def right(self, places: Region, panel: Expr, vector: Expr) -> PrimExpr:
        first = op("mul", vector, index(PAIR * LANES))
        return self._bits(self.packing.tensor, op("add", self.packing.address(places.points(), panel), first), LANES)

    def add(self, total: PrimExpr, left: PrimExpr, right: PrimExpr) -> PrimExpr:
        return add_pairs(self.kernel.builder, total, left, right)

    def _bits(self, tensor: Tensor, where: Expr, pairs: int) -> PrimExpr:
        from tvm.tirx import BufferLoad, Ramp, reinterpret

        start = self.kernel.builder.index(linear(where).expr())
        bits = BufferLoad(self.kernel.arrays[tensor], [Ramp(start, 1, PAIR * pairs)])
        return reinterpret("int32" if pairs == 1 else f"int32x{pairs}", bits)
