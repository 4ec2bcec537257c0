"""Staging: values that lie across the vector lanes are first brought on chip in the other order.

A rewriting of tile phases: afterwards every vector is read from adjacent elements, but for gathers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from redfuser.codegen.cpu.bytes.panels import ROWS
from redfuser.codegen.cpu.lowering.nests import (
    FEW,
    BlockProduct,
    Transpose,
    dots,
    make_nest,
    store_vector,
    transposing_axis,
)
from redfuser.codegen.cpu.lowering.storage import Layout, lay_out
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, substitute
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.sharing import operands


@dataclass
class Staging:
    """Rewrites one phase.

    Args:
        phase: what to rewrite.
        machine: gives the vector's width.
        lanes: the axis that the phase prefers along lanes.
        tiles: tile size of every axis tiled by the grid and the streams around.

    Attributes:
        layouts: of every buffer, those added included.
    """

    phase: Phase
    machine: Machine
    lanes: Axis | None
    tiles: Mapping[Axis, int]
    layouts: dict[Tensor, Layout] = field(default_factory=dict)

    def run(self) -> Phase:
        """The phase with staging buffers and the maps that fill them."""
        for buffer in self.phase.buffers:
            self.layouts[buffer.tensor] = lay_out(buffer, self.lanes, self.machine)
        body = self._body(self.phase.body)
        return replace(self.phase, body=body, buffers=tuple(layout.buffer for layout in self.layouts.values()))

    def _body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        first: list[Statement] = []
        rest: list[Statement] = []
        for statement in body:
            if isinstance(statement, Stream):
                outside = self.tiles
                self.tiles = {**outside, statement.axis: statement.tile}
                rest.append(replace(statement, body=self._body(statement.body)))
                self.tiles = outside
                continue
            before, staged = self._statement(statement)
            for item in before:
                early = all(node.tensor not in self.layouts for node in value_loads(item.value))
                (first if early else rest).append(item)
            rest.append(staged)
        return (*first, *rest)

    def _strides(self, statement: Statement) -> Strides:
        sizes = {a: self.tiles.get(a, a.extent) for a in _axes(statement)}
        return Strides(self.layouts, sizes)

    def _statement(self, statement: Statement) -> tuple[list[Map], Statement]:
        strides = self._strides(statement)
        if isinstance(statement, BlockProduct):
            self._make_room(statement)
            return [], statement
        if isinstance(statement, Contract):
            return self._contract(statement, strides)
        if isinstance(statement, Store):
            return self._store(statement, strides)
        if isinstance(statement, Map | Reduce):
            nest = make_nest(statement, strides, self.lanes)
            vector = None if isinstance(nest.leaf, Transpose) else nest.vector
            maps, value = self._across(statement.value, vector, strides)
            return maps, replace(statement, value=value)
        return [], statement

    def _make_room(self, product: BlockProduct) -> None:
        """Columns along the lanes, and whole tiles of rows."""
        target = product.target
        layout = lay_out(target, product.column, self.machine)
        rows = target.tensor.shape[target.axes.index(product.row)]
        size = layout.size // rows * (-(-rows // ROWS) * ROWS)
        self.layouts[target.tensor] = replace(layout, size=size)

    def _store(self, statement: Store, strides: Strides) -> tuple[list[Map], Statement]:
        vector = store_vector(statement, strides)
        if vector is None or strides.sizes[vector] < FEW:
            return [], statement
        chip = [node for node in value_loads(statement.value) if node.tensor in self.layouts]
        if all(strides.of_load(node, vector) in (0, 1) for node in chip):
            maps, value = self._across(statement.value, vector, strides)
            return maps, replace(statement, value=value)
        if transposing_axis(statement.value, statement.axes, vector, strides) is None:
            return [], statement
        first, value = self._stage(statement.value, vector, statement.tensor.name)
        return [first], replace(statement, value=value)

    def _across(self, value: Expr, vector: Axis | None, strides: Strides) -> tuple[list[Map], Expr]:
        """Stage the largest parts of a value that come from memory across the vector."""
        if vector is None or strides.sizes[vector] < FEW:
            return [], value
        maps: list[Map] = []
        replacements: dict[Expr, Expr] = {}

        def visit(node: Expr) -> None:
            if self._crosses(node, vector, strides):
                if transposing_axis(node, tuple(strides.sizes), vector, strides) is not None:
                    first, replacements[node] = self._stage(node, vector, value_loads(node)[0].tensor.name)
                    maps.append(first)
                return
            for child in operands(node):
                if child not in replacements:
                    visit(child)

        visit(value)
        return maps, substitute(value, replacements)

    def _crosses(self, node: Expr, vector: Axis, strides: Strides) -> bool:
        """Whether a value comes from memory alone, and not from adjacent elements."""
        found = value_loads(node)
        steps = {strides.of_load(item, vector) for item in found}
        in_memory = all(item.tensor not in self.layouts for item in found)
        return in_memory and bool(steps - {0, 1}) and 1 not in steps and vector in axes_of(node)

    def _contract(self, statement: Contract, strides: Strides) -> tuple[list[Map], Statement]:
        target = statement.target
        vector = self.layouts[target.tensor].lane
        maps: list[Map] = []
        sides: list[Expr] = []
        for side, other in ((statement.left, statement.right), (statement.right, statement.left)):
            wanted = self._operand_lane(side, other, statement, vector, strides)
            if wanted is not None:
                name = value_loads(side)[0].tensor.name if value_loads(side) else "operand"
                first, side = self._stage(side, wanted, name)
                maps.append(first)
            sides.append(side)
        return maps, replace(statement, left=sides[0], right=sides[1])

    def _operand_lane(
        self, side: Expr, other: Expr, statement: Contract, vector: Axis | None, strides: Strides
    ) -> Axis | None:
        """The axis along which an operand must be staged; ``None`` if it can be read where it lies."""
        ready = isinstance(side, Load) and side.dtype == statement.target.tensor.dtype
        if vector is None or vector not in axes_of(side):
            wide = [a for a in (*statement.target.axes, statement.over) if a in axes_of(side) and strides.sizes[a] > 1]
            smooth = [a for a in wide if strides.smooth(side, a)]
            return None if ready or not wide else (smooth or wide)[-1]
        if ready and (strides.smooth(side, vector) or dots(side, other, statement, vector, strides)):
            return None
        return vector

    def _stage(self, value: Expr, lane: Axis, name: str) -> tuple[Map, Expr]:
        """A map that keeps ``value`` in a buffer with ``lane`` innermost, and the read of it."""
        known = axes_of_phase(self.phase)
        axes = tuple(sorted(axes_of(value) & set(known), key=known.index))
        taken = {tensor.name for tensor in self.layouts}
        unique = next(n for n in (f"{name}.staged{k or ''}" for k in range(len(taken) + 1)) if n not in taken)
        shape = tuple(self.tiles.get(a, a.extent) for a in axes)
        buffer = Buffer(Tensor(unique, shape, value.dtype), axes)
        self.layouts[buffer.tensor] = lay_out(buffer, lane, self.machine)
        return Map(buffer, value), buffer.value


def axes_of_phase(phase: Phase) -> list[Axis]:
    """Every axis of a phase in a fixed order, the grid's first."""
    axes = dict.fromkeys(tile.axis for tile in phase.grid)
    for statement in _flatten(phase.body):
        axes |= dict.fromkeys(_axes(statement))
    return list(axes)


def _axes(statement: Statement) -> tuple[Axis, ...]:
    """The axes a statement runs over."""
    if isinstance(statement, Store):
        return statement.axes
    if isinstance(statement, Reduce | Contract):
        return (*statement.target.axes, statement.over)
    return statement.target.axes if isinstance(statement, Map | Fill | BlockProduct) else ()


def _flatten(body: Sequence[Statement]) -> list[Statement]:
    found: list[Statement] = []
    for statement in body:
        found += _flatten(statement.body) if isinstance(statement, Stream) else [statement]
    return found
