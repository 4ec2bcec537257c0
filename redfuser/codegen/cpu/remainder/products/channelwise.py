"""Writes sums of products of bytes channel by channel.

Some elements of a window are added to a lane by one instruction: four bytes by VNNI, a pair of 16-bit integers by AVX2.
Their bytes are interleaved for it, channel by channel, and what neighbouring places share is interleaved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.pack import interleaved
from redfuser.codegen.cpu.bytes.panels import QUAD
from redfuser.codegen.cpu.remainder.kernel import Kernel, point
from redfuser.codegen.cpu.remainder.products.channels import ChannelPacking, ChannelSums
from redfuser.codegen.cpu.remainder.products.tasks import digits, product_of
from redfuser.codegen.cpu.values.builder import matched
from redfuser.codegen.cpu.values.vectors import intrinsic
from redfuser.expr import Axis, Expr, Tensor, axes_of, index, op, substitute
from redfuser.extents import is_symbolic, most
from redfuser.indexing import linear
from redfuser.targets import CpuTarget

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Places along a row that are computed together.
ABREAST = 4


@dataclass(frozen=True)
class Vectors:
    """How bytes are multiplied.

    Args:
        group: elements of a window that one instruction adds to a lane.
        lanes: of a vector of sums.
        block: channels computed together at most, a power of two.
        dtype: of the weight.
    """

    group: int
    lanes: int
    block: int
    dtype: str


VNNI, PAIRS = Vectors(QUAD, 16, 64, "int8"), Vectors(2, 8, 16, "int16")


def pack_channels(sums: ChannelSums, target: CpuTarget) -> ChannelPacking:
    """How the weight is packed for a processor."""
    vectors = VNNI if target.has_vnni else PAIRS
    channels = sums.column.extent
    block = vectors.block
    while block > channels:
        block //= 2
    starts = tuple(min(n * block, channels - block) for n in range(-(-channels // block)))
    groups = tuple(tuple(offset for _, offset in group) for group in sums.groups(vectors.group))
    tensor = Tensor("packed", (len(starts) * len(groups) * block * vectors.group,), vectors.dtype)
    return ChannelPacking(tensor, sums.weight, groups, starts, block, vectors.lanes)


def write_channels(kernel: Kernel, sums: ChannelSums, packing: ChannelPacking, target: CpuTarget) -> None:
    """Write the loops; the packed weight is a parameter."""
    _Writer(kernel, sums, packing, VNNI if target.has_vnni else PAIRS).write()


class _Writer:
    def __init__(self, kernel: Kernel, sums: ChannelSums, packing: ChannelPacking, vectors: Vectors) -> None:
        self.kernel, self.builder = kernel, kernel.builder
        self.sums, self.packing, self.vectors = sums, packing, vectors
        self.abreast = min(ABREAST, sums.row.extent)
        self.panels = packing.block // vectors.lanes
        self.image = kernel.arrays[sums.image.tensor]
        self.packed = kernel.arrays[packing.tensor]

    def write(self) -> None:
        """A task for some neighbours in a row; in it, blocks of channels. The last ones end with the row."""
        builder, sums = self.builder, self.sums
        blocks = -(-sums.row.extent // self.abreast)
        extents: list[Expr] = [*(index(a.extent) for a in sums.outer), index(blocks)]
        tasks = prod([*(most(a.extent) for a in sums.outer), blocks])
        is_open = any(is_symbolic(a.extent) for a in sums.outer)
        known = builder.index(product_of(extents)) if is_open else None
        with builder.loop("task", tasks, "parallel" if tasks > 1 else "serial", known) as task:
            *outer, row = digits(task, extents)
            places = dict(zip(sums.outer, outer, strict=True))
            places[sums.row] = self._start("row", row, self.abreast, sums.row)
            with builder.loop("channels", len(self.packing.starts)) as number:
                column = self._start("column", number, self.packing.block, sums.column)
                self._block({**places, sums.column: column}, number)

    def _start(self, name: str, number: Expr, size: int, along: Axis) -> Expr:
        last = along.extent - size
        return self.builder.coordinate(name, op("min", op("mul", number, index(size)), index(last)), last + 1)

    def _block(self, places: dict[Axis, Expr], number: Expr) -> None:
        """Some neighbours and channels: each line of bytes once, with all that is multiplied by it."""
        sums, size = self.sums, self.vectors.group
        form = linear(sums.image.indices[0])
        step = dict(form.terms).get(sums.row, 0)
        uses: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for place in range(self.abreast):
            for which, group in enumerate(sums.groups(size)):
                uses.setdefault(tuple(place * step + offset for offset, _ in group), []).append((place, which))
        where = {**places, **dict.fromkeys(sums.reduced, index(0))}
        origin = linear(substitute(form.expr(), {a: where[a] for a in axes_of(form.expr())})).expr()
        totals = [[self._zero() for _ in range(self.panels)] for _ in range(self.abreast)]
        for offsets, wanted in sorted(uses.items(), key=lambda item: item[0][0]):
            lines = self._lines([op("add", origin, index(offset)) for offset in offsets])
            for place, which in wanted:
                for panel, line in enumerate(lines):
                    self._add(totals[place][panel], line, self._weight(number, which, panel))
        for place in range(self.abreast):
            for panel in range(self.panels):
                self._finish(places, place, panel, totals[place][panel])

    def _lines(self, places: Sequence[Expr]) -> list[PrimExpr]:
        """The bytes at some places side by side for each channel, a vector for each panel."""
        from tvm.tirx import BufferLoad, Ramp, const, reinterpret, shift_left

        builder, block, lanes = self.builder, self.packing.block, self.vectors.lanes
        rows = [BufferLoad(self.image, [Ramp(builder.index(place), 1, block)]) for place in places]
        if self.vectors is VNNI:
            return interleaved(builder, rows)
        words = []
        for panel in range(self.panels):
            first, second = (
                BufferLoad(self.image, [Ramp(builder.index(op("add", p, index(panel * lanes))), 1, lanes)]).astype(
                    f"int32x{lanes}"
                )
                for p in places
            )
            pair = first | shift_left(second, matched(const(16, "int32"), lanes))
            words.append(builder.bind("pair", reinterpret(f"int16x{2 * lanes}", pair)))
        return words

    def _weight(self, number: Expr, which: int, panel: int) -> PrimExpr:
        from tvm.tirx import BufferLoad, Ramp

        each = self.vectors.lanes * self.vectors.group
        groups = len(self.packing.groups)
        first = op("mul", number, index(groups * self.panels * each))
        place = self.builder.index(op("add", first, index((which * self.panels + panel) * each)))
        return BufferLoad(self.packed, [Ramp(place, 1, each)])

    def _add(self, total: Array, line: PrimExpr, weight: PrimExpr) -> None:
        from tvm.tirx import reinterpret

        lanes = self.vectors.lanes
        kind, value = f"int32x{lanes}", self._get(total)
        if self.vectors is VNNI:
            factors = [reinterpret(f"int8x{QUAD * lanes}", line), weight]
            value = intrinsic(kind, "llvm.x86.avx512.vpdpbusd.512", value, *factors)
        else:
            value = value + intrinsic(kind, "llvm.x86.avx2.pmadd.wd", line, weight)
        self.builder.store(total, self._whole(), value)

    def _finish(self, places: dict[Axis, Expr], place: int, panel: int, total: Array) -> None:
        """Store one vector of results."""
        sums, translator, lanes = self.sums, self.kernel.translator, self.vectors.lanes
        region = point(places).narrow(sums.row, index(place), 1)
        region = region.along(sums.column, index(panel * lanes), lanes)
        value = translator.value(sums.epilogue, region, {sums.total: self._get(total)})
        translator.access.put_in_memory(sums.target, [sums.address], region, value)

    def _zero(self) -> Array:
        from tvm.tirx import const

        total = self.builder.allocate("total", self.vectors.lanes, "int32")
        self.builder.store(total, self._whole(), matched(const(0, "int32"), self.vectors.lanes))
        return total

    def _get(self, total: Array) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(total, [self._whole()])

    def _whole(self) -> PrimExpr:
        from tvm.tirx import Ramp

        return Ramp(self.builder.number(0), 1, self.vectors.lanes)
