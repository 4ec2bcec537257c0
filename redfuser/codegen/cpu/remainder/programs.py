"""Groups of definitions as phases of a tile program: lowered like a fused cascade. No TVM."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from redfuser.cascade.graph import Definition
from redfuser.cascade.model import IDENTITIES
from redfuser.codegen.cpu.remainder.flat import address, flat, flatten, normalise
from redfuser.codegen.cpu.remainder.groups import Group
from redfuser.expr import Axis, Expr, Tensor, index, loads, substitute
from redfuser.extents import is_symbolic, most
from redfuser.indexing import Linear, linear
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile

#: Elements that a block works on, roughly: enough to outweigh starting it, few enough to stay in the cache.
BLOCK = 1 << 13

#: Tiles of symbolic axes: contiguous ones, and others. What is left over is gone through in parts of these.
SYMBOLIC_TILE, SYMBOLIC_ROWS = 256, 16

#: Edge of the squares that a transposition goes through.
EDGE = 32


def make_phase(group: Group) -> Phase:
    """The phase that computes one group; all tensors in memory are flat."""
    return _PhaseBuilder(group).build()


class _PhaseBuilder:
    def __init__(self, group: Group) -> None:
        exprs = [expr for d in group.definitions for expr in (flatten(d.body), address(d.tensor, group.place(d)))]
        self.group = group
        self.normal = normalise(group.axes, exprs)
        self.values, self.addresses = self.normal.exprs[::2], self.normal.exprs[1::2]
        self.rows = self.normal.of(group.rows)
        self.tiles = self._tiles()
        self.buffers: dict[Tensor, Buffer] = {}

    def build(self) -> Phase:
        body: list[Statement] = []
        for definition, value, where in zip(self.group.definitions, self.values, self.addresses, strict=True):
            body += self._statements(definition, self._on_chip(value), where)
        return Phase(tuple(Tile(a, self.tiles[a]) for a in self.rows), tuple(self.buffers.values()), tuple(body))

    def _statements(self, definition: Definition, value: Expr, where: Expr) -> list[Statement]:
        axes, memory = self.normal.of(definition.axes), flat(definition.tensor)
        stored = definition.tensor in self.group.stored
        again = any(node.tensor == definition.tensor for d in self.group.definitions for node in loads(d.body))
        if stored and not again and not definition.is_reduction:
            return [Store(memory, axes, (where,), value)]
        shape = tuple(self.tiles.get(a, a.extent) for a in axes)
        buffer = Buffer(Tensor(f"{memory.name}_tile", shape, memory.dtype), axes)
        self.buffers[memory] = buffer
        statements: list[Statement] = [Map(buffer, value)]
        if definition.is_reduction:
            statements = [Fill(buffer, IDENTITIES[definition.combiner]), *self._fold(buffer, definition, value)]
        return statements + [Store(memory, axes, (where,), buffer.value)] * stored

    def _fold(self, buffer: Buffer, definition: Definition, value: Expr) -> list[Statement]:
        """The reduction over one axis, the one that is contiguous in memory if any is; streams over the others.

        One element is its own fold, and none leaves the identity.
        """
        if not self.normal.of(definition.reduced):
            return [] if any(a.extent == 0 for a in definition.reduced) else [Map(buffer, value)]
        near = {a for node in loads(value) for a in _unit_axes(linear(node.indices[-1]))}
        *outer, over = sorted(self.normal.of(definition.reduced), key=lambda a: a in near)
        rank = None if definition.rank is None else self.normal.of([definition.rank])[0]
        statement: Statement = Reduce(buffer, definition.combiner, value, over, rank)
        if is_symbolic(over.extent):
            statement = Stream(over, SYMBOLIC_TILE, (statement,), index(0), index(over.extent))
        for axis in reversed(outer):
            statement = Stream(axis, 1, (statement,), index(0), index(axis.extent))
        return [statement]

    def _on_chip(self, value: Expr) -> Expr:
        """Results of the group read from their buffers."""
        known = [node for node in loads(value) if node.tensor in self.buffers]
        return substitute(value, {node: self.buffers[node.tensor].value for node in known})

    def _tiles(self) -> dict[Axis, int]:
        """Tile sizes of the row axes: whole vectors along contiguous axes, then blocks of about :data:`BLOCK` elements.

        A small group is one block: it isn't worth starting threads for.
        """
        small = prod(most(a.extent) for a in self.normal.axes) <= BLOCK
        if small and not any(is_symbolic(a.extent) for a in self.rows):
            return {a: a.extent for a in self.rows}
        work = prod(most(a.extent) for a in self.normal.axes if a not in self.rows)
        near = [a for a in self.rows if any(a in _unit_axes(form) for form in self._memory_forms())]
        edge = EDGE if len(near) > 1 else BLOCK
        tiles = dict.fromkeys(self.rows, 1)
        for axis in (*near, *(a for a in reversed(self.rows) if a not in near)):
            room = min(edge, max(BLOCK // work, EDGE)) if axis in near else BLOCK // work
            if is_symbolic(axis.extent):
                tiles[axis] = _power_of_two(min(room, SYMBOLIC_TILE if axis in near else SYMBOLIC_ROWS))
            else:
                tiles[axis] = _part(axis.extent, max(room, 1))
            work *= tiles[axis]
        return tiles

    def _memory_forms(self) -> Iterator[Linear]:
        """Addresses in memory that vary along more than one axis, where it matters which is innermost."""
        own = {flat(d.tensor) for d in self.group.definitions}
        for definition, value, where in zip(self.group.definitions, self.values, self.addresses, strict=True):
            found = [linear(node.indices[0]) for node in loads(value) if node.tensor not in own]
            found += [linear(where)] * (definition.tensor in self.group.stored)
            yield from (form for form in found if len(form.terms) > 1 or len(self.rows) == 1)


def _unit_axes(form: Linear) -> list[Axis]:
    """Axes along which an address moves by one element."""
    return [atom for atom, step in form.terms if step == 1 and isinstance(atom, Axis)]


def _part(extent: int, limit: int) -> int:
    """Size of a tile: the largest divisor up to ``limit`` unless that is much smaller."""
    if extent <= limit:
        return extent
    best = max(n for n in range(1, limit + 1) if extent % n == 0)
    return best if 2 * best > limit else limit


def _power_of_two(limit: int) -> int:
    """The largest one up to ``limit``, 1 at least."""
    return 1 << (max(limit, 1).bit_length() - 1)
