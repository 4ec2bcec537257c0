"""Which results are written past the caches: those that no cache can hold until they are read.

Such a store doesn't read the lines it overwrites, which is a third of the traffic of a copy. A result that fits the
last-level cache is left there for its reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import prod

from redfuser.codegen.cpu.machine import LINE_BYTES, Machine
from redfuser.codegen.cpu.values.nontemporal import storable
from redfuser.codegen.cpu.values.types import in_memory
from redfuser.expr import Axis, Expr, Tensor, index, loads, op
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import is_symbolic
from redfuser.indexing import Linear, linear
from redfuser.tile.ir import Phase, Statement, Store, Stream
from redfuser.tile.walk import operands, steps


def uncached(phase: Phase, phases: Sequence[Phase], outputs: Collection[Tensor], machine: Machine) -> frozenset[Tensor]:
    """The outputs a phase writes that are larger than the last-level cache, written once, line by line, and not read.

    Only whole vectors are stored so: see :meth:`redfuser.codegen.cpu.values.access.Access.put_in_memory`.

    Args:
        phases: all of the kernel.
        outputs: of the kernel.
    """
    if not machine.has_nontemporal:
        return frozenset()
    everywhere = [s for each in phases for s in steps(each.body)]
    read = {node.tensor for s in everywhere for value in operands(s) for node in loads(value)}
    written = Counter(s.tensor for s in everywhere if isinstance(s, Store))
    return frozenset(
        s.tensor
        for s in steps(phase.body)
        if isinstance(s, Store)
        and s.tensor in outputs
        and written[s.tensor] == 1
        and s.tensor not in read
        and storable(in_memory(s.tensor.dtype), machine.lanes)
        and _exceeds(s.tensor, machine)
        and _by_lines(s, phase)
    )


def _exceeds(tensor: Tensor, machine: Machine) -> bool:
    if any(map(is_symbolic, tensor.shape)):
        return False
    return tensor.size * numpy_dtype(tensor.dtype).itemsize > machine.last_level_bytes


def _by_lines(store: Store, phase: Phase) -> bool:
    """Whether a store goes through whole lines one after another: its last axis is adjacent, and rows begin at lines.

    A line of which only a part is written at a time is read after all.
    """
    if not store.axes:
        return False
    itemsize, position, along = numpy_dtype(store.tensor.dtype).itemsize, _position(store), store.axes[-1]
    strides = {atom: stride * itemsize for atom, stride in position.terms}
    tiles = {tile.axis: tile.size for tile in phase.grid} | dict(_streamed(phase.body))
    width = min(tiles.get(along, along.extent), along.extent)
    starts = [stride for atom, stride in strides.items() if atom != along] + [position.constant * itemsize]
    if width < along.extent:
        starts.append(width * itemsize)
    affine = all(isinstance(atom, Axis) for atom in strides)
    return affine and strides.get(along) == itemsize and not any(start % LINE_BYTES for start in starts)


def _position(store: Store) -> Linear:
    """Where a store writes, in elements from the tensor's first one."""
    shape = store.tensor.shape
    position: Expr = index(0)
    for dimension, where in enumerate(store.indices):
        position = op("add", position, op("mul", where, index(prod(shape[dimension + 1 :]))))
    return linear(position)


def _streamed(body: Sequence[Statement]) -> Iterator[tuple[Axis, int]]:
    for statement in body:
        if isinstance(statement, Stream):
            yield statement.axis, statement.tile
            yield from _streamed(statement.body)
