"""Reads and writes of one point or one vector of points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.codegen.cpu.values import nontemporal
from redfuser.codegen.cpu.values.builder import Builder, arithmetic, lanes_of, matched
from redfuser.codegen.cpu.values.types import computed, decoded, encoded
from redfuser.codegen.cpu.values.vectors import shuffle, typed
from redfuser.expr import Expr, Load, Tensor, axes_of, index, loads, substitute
from redfuser.extents import surely_at_most, surely_less
from redfuser.indexing import Linear, linear

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

Evaluate = Callable[[Expr, Region], "PrimExpr"]


@dataclass
class Access:
    """Knows where every tensor and buffer lies.

    Args:
        builder: where statements go.
        layouts: on-chip buffers.
        arrays: storage of on-chip buffers (flat) and of tensors in memory (in their shape, or in the first
            :func:`rank` dimensions of it).
        uncached: tensors in memory that are written past the caches.
    """

    builder: Builder
    layouts: Mapping[Tensor, Layout]
    arrays: Mapping[Tensor, Array]
    uncached: Collection[Tensor] = ()

    def on_chip(self, tensor: Tensor, region: Region) -> PrimExpr:
        """Elements of an on-chip buffer; a scalar where they are the same in every lane."""
        from tvm.tirx import BufferLoad

        return decoded(BufferLoad(self.arrays[tensor], [self.position(tensor, region)]), tensor.dtype)

    def put_on_chip(self, tensor: Tensor, region: Region, value: PrimExpr) -> None:
        """Write elements of an on-chip buffer."""
        array = self.arrays[tensor]
        value = encoded(value, tensor.dtype, str(array.dtype))
        self.builder.store(array, self.position(tensor, region), value)

    def position(self, tensor: Tensor, region: Region) -> PrimExpr:
        """Flat position in an on-chip buffer: a number, or a ramp along the lanes."""
        return self._ramp(linear(self.layouts[tensor].offset(region)), region)

    def _ramp(self, form: Linear, region: Region) -> PrimExpr:
        from tvm.tirx import Ramp

        lane = region.lane
        stride = next((c for atom, c in form.terms if atom == lane), 0)
        base = Linear(tuple(t for t in form.terms if t[0] != lane), form.constant)
        start = self.builder.index(base.expr())
        return Ramp(start, stride, lane.extent) if lane is not None and stride else start

    def in_memory(self, node: Load, region: Region, evaluate: Evaluate) -> PrimExpr:
        """Elements of a tensor in memory: one vector where they are adjacent, else gathered one by one.

        Args:
            evaluate: gives the values that an index is computed from.
        """
        from tvm.tirx import BufferLoad

        where = self._adjacent(node.tensor, node.indices, region)
        if where is None and region.lane is not None:
            lanes = range(region.lane.extent)
            return shuffle([self.in_memory(node, region.element(n), evaluate) for n in lanes], lanes)
        if where is None:
            pairs = zip(node.indices, node.tensor.shape, strict=True)
            where = [self._clipped(i, n, region, evaluate) for i, n in pairs][: len(self.arrays[node.tensor].shape)]
        return decoded(BufferLoad(self.arrays[node.tensor], where), node.tensor.dtype)

    def where_wanted(self, node: Load, region: Region, evaluate: Evaluate) -> PrimExpr | None:
        """Adjacent elements of a tensor in memory as one vector, or one for all lanes; None if they are neither.

        All of them are inside the tensor, or none is and nothing will be read: the caller sees to that. Where the
        place depends on what memory holds, it is brought inside.
        """
        from tvm.tirx import BufferLoad, Ramp

        array, lane = self.arrays[node.tensor], region.lane
        assert lane is not None
        last, points = len(array.shape) - 1, region.points()
        where: list[PrimExpr] = []
        for dimension, position in enumerate(node.indices[: last + 1]):
            form = linear(substitute(position, points))
            varying = [(atom, c) for atom, c in form.terms if lane in axes_of(atom)]
            if varying and (varying != [(lane, 1)] or dimension != last):
                return None
            start = Linear(tuple(t for t in form.terms if t not in varying), form.constant).expr()
            width = lane.extent if varying else 1
            base = self._brought_inside(start, node.tensor.shape[dimension], width, region, evaluate)
            where.append(Ramp(base, 1, width) if varying else base)
        return decoded(BufferLoad(array, where), node.tensor.dtype)

    def _brought_inside(self, start: Expr, extent: int, width: int, region: Region, evaluate: Evaluate) -> PrimExpr:
        from tvm.tirx import Max, Min

        value = evaluate(start, region.element(0)).astype(self.builder.dtype)
        if not loads(start):
            return value
        return Max(Min(value, self.builder.index(index(extent - width))), self.builder.number(0))

    def put_in_memory(self, tensor: Tensor, indices: Sequence[Expr], region: Region, value: PrimExpr) -> None:
        """Write elements of a tensor in memory; one by one if they aren't adjacent, or bools, which TVM packs."""
        from tvm.tirx import BufferStore

        array = self.arrays[tensor]
        stored = str(array.dtype)
        where = self._adjacent(tensor, indices, region)
        if region.lane is None or (where is not None and stored != "bool"):
            assert where is not None, f"{tensor.name} is written outside its bounds"
            width = max(map(lanes_of, where), default=1)
            value = matched(encoded(value, tensor.dtype, stored), width)
            past = tensor in self.uncached and nontemporal.storable(stored, width) and _aligned(where[-1], width)
            if past:
                nontemporal.store(self.builder, array, where, value)
            else:
                self.builder.emit(BufferStore(array, value, where))
            return
        kept = "int8" if tensor.dtype == "bool" else computed(tensor.dtype)
        vector = self.builder.bind("value", matched(value.astype(typed(kept, value)), region.lane.extent))
        for n in range(region.lane.extent):
            element = shuffle([vector], [n])
            element = decoded(element, "bool") if stored == "bool" else element
            self.put_in_memory(tensor, indices, region.element(n), element)

    def prefetch(self, item: Prefetch, region: Region) -> None:
        """Bring an element's cache line closer; but no boolean, of which TVM compiles no address."""
        from tvm.tirx import BufferLoad, Evaluate, address_of, call_llvm_intrin, const

        points = region.points()
        array = self.arrays[item.tensor]
        if str(array.dtype) == "bool":
            return
        where = [self.builder.index(substitute(i, points)) for i in item.indices][: len(array.shape)]
        element = address_of(BufferLoad(array, where))
        kind, level, data = (const(n, "int32") for n in (int(item.write), 3 if item.nearest else 2, 1))
        self.builder.emit(Evaluate(call_llvm_intrin("void", "llvm.prefetch", element, kind, level, data)))

    def _adjacent(self, tensor: Tensor, indices: Sequence[Expr], region: Region) -> list[PrimExpr] | None:
        """Where it lies, if all lanes have one element or adjacent ones, certainly inside the tensor."""
        if not all(arithmetic(i) and _inside(i, extent) for i, extent in zip(indices, tensor.shape, strict=True)):
            return None
        points = region.points()
        forms = [linear(substitute(i, points)) for i in indices][: len(self.arrays[tensor].shape)]
        lane = region.lane
        for dimension, form in enumerate(forms):
            varying = [(atom, c) for atom, c in form.terms if lane is not None and lane in axes_of(atom)]
            if varying and (varying != [(lane, 1)] or dimension != len(forms) - 1):
                return None
        return [self._ramp(form, region) for form in forms]

    def _clipped(self, position: Expr, extent: int, region: Region, evaluate: Evaluate) -> PrimExpr:
        """An index kept inside the tensor: what a select throws away may point anywhere."""
        from tvm.tirx import Max, Min

        value = evaluate(position, region).astype(self.builder.dtype)
        if not loads(position) and _inside(position, extent):
            return value
        return Max(Min(value, self.builder.index(index(extent - 1))), self.builder.number(0))


def inside(node: Load) -> bool:
    """Whether an element certainly lies in its tensor, whatever the point of the program's axes."""
    pairs = zip(node.indices, node.tensor.shape, strict=True)
    return all(arithmetic(position) and _inside(position, extent) for position, extent in pairs)


def rank(tensor: Tensor) -> int:
    """How many dimensions are left without the last ones of one element: vectors run along the last that is left."""
    wide = (place for place, extent in enumerate(tensor.shape, 1) if extent != 1)
    return max(wide, default=min(1, len(tensor.shape)))


def _aligned(ramp: PrimExpr, lanes: int) -> bool:
    """Whether a vector certainly begins at a multiple of its width, in rows that do."""
    from tvm.arith import Analyzer
    from tvm.tirx import Ramp

    modular = Analyzer().modular_set(ramp.base) if isinstance(ramp, Ramp) else None
    return modular is not None and modular.coeff % lanes == 0 and modular.base % lanes == 0


def _inside(position: Expr, extent: int) -> bool:
    """Whether an index can't leave its dimension, whatever the point of the program's axes."""
    low, high = linear(position).bounds()
    return surely_at_most(0, low) and surely_less(high, extent)
