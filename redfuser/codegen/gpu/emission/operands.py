"""Operands of matrix products, brought to where they are multiplied."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.geometry import Span
from redfuser.codegen.gpu.emission.open_sizes import mappable
from redfuser.codegen.gpu.emission.padding import same
from redfuser.codegen.gpu.emission.precision import strip_casts
from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Expr, Load, axes_of, loads
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import Extent, most
from redfuser.indexing import linear
from redfuser.tile.ir import Buffer, Map


@dataclass(frozen=True)
class Operand:
    """An operand in place: its name, and its two axes in order."""

    name: str
    axes: tuple[Axis, ...]


def copy_operand(block: Block, statement: Map) -> bool:
    """Write a map that only moves an operand to shared memory; False if it isn't one."""
    plan = block.plan[statement.target.tensor]
    bare = strip_casts(statement.value)
    if plan.scope != "shared" or not isinstance(bare, Load) or bare.tensor in block.buffers:
        return False
    kept = block.stored(statement.target)
    region = _region(block, bare, kept.axes, kept.axes) if bare.dtype == plan.dtype else None
    if region is None:
        return False
    block.lines.add(f"T.copy({region}, {kept.name})")
    if block.uses[statement.target.tensor] == 1:
        block.copied[kept.name] = bare.tensor
    block.padding.known |= {(statement.target.tensor, axis): 0 for axis in kept.axes}
    return True


def operand(block: Block, value: Expr, over: Axis, other: Axis, dtype: str, registers: bool) -> Operand:
    """Bring an operand in place.

    Args:
        registers: whether it may stay in registers.
    """
    spans = block.geometry.wide(sorted(axes_of(value), key=lambda a: a.name))
    if {span.axis for span in spans} != {over, other}:
        raise Refused("product", "an operand of a matrix product has two axes with several points", value)
    bare = strip_casts(value)
    if isinstance(bare, Load) and bare.tensor in block.buffers:
        buffer = block.buffers[bare.tensor]
        kept = block.stored(buffer)
        if kept.dtype == dtype and kept.scope == "shared" and _clean(block, buffer, over):
            return Operand(kept.name, kept.axes)
        return computed(block, value, kept.axes, over, dtype, registers and kept.scope == "fragment")
    if isinstance(bare, Load):
        order = _order(bare, over, other, dtype)
        region = _region(block, bare, order, {over}) if bare.dtype == dtype else None
        if region is None:
            return computed(block, value, order, over, dtype, False)
        shape = [block.geometry.span(axis).extent for axis in order]
        name = block.declare(f"{bare.tensor.name}_shared", "shared", shape, dtype)
        block.lines.add(f"T.copy({region}, {name})")
        block.copied[name] = bare.tensor
        return Operand(name, order)
    widest = max(loads(value), key=lambda node: len(axes_of(node)), default=None)
    order = (other, over) if registers else _order(widest, over, other, dtype)
    return computed(block, value, order, over, dtype, registers)


def _clean(block: Block, buffer: Buffer, over: Axis) -> bool:
    """Whether a buffer holds 0 outside the axis summed."""
    return not block.geometry.span(over).ragged or same(block.padding.known.get((buffer.tensor, over)), 0)


def computed(
    block: Block, value: Expr, order: tuple[Axis, ...], over: Axis, dtype: str, registers: bool, part: str = "{}"
) -> Operand:
    """Evaluate an operand element by element, 0 outside the axis summed.

    Args:
        part: format of the part of a value that is kept.
    """
    spans = block.geometry.wide(order)
    bare = strip_casts(value)
    named = bare.tensor.name if isinstance(bare, Load) else "operand"
    scope = "fragment" if registers else "shared"
    name = block.declare(f"{named}_{dtype}", scope, [span.extent for span in spans], dtype)
    clean = same(block.padding.value(value, over), 0)
    text = block.inside([] if clean else [block.geometry.span(over)], value, 0, dtype)
    block.parallel(spans, f"{name}[{block.variables(spans)}] = {part.format(text)}")
    return Operand(name, order)


def _memory_order(value: Load | None, over: Axis, other: Axis) -> tuple[Axis, Axis]:
    """The two axes as the tensor has them, so that neighbours stay neighbours."""
    steps: dict[Expr, int] = {over: 0, other: 0}
    if value is not None:
        stride: Extent = 1
        for position, extent in zip(reversed(value.indices), reversed(value.tensor.shape), strict=True):
            steps |= {atom: most(c * stride) for atom, c in linear(position).terms if atom in steps}
            stride *= extent
    return (over, other) if steps[over] > steps[other] else (other, over)


def _order(value: Load | None, over: Axis, other: Axis, dtype: str) -> tuple[Axis, Axis]:
    """As in memory; tensor cores take types of 8 bits only with neighbours along the axis summed."""
    return (other, over) if numpy_dtype(dtype).itemsize == 1 else _memory_order(value, over, other)


def _region(block: Block, value: Load, order: tuple[Axis, ...], clean: Collection[Axis]) -> str | None:
    """The box of memory that holds a tile, or ``None`` if none does.

    Args:
        order: axes of the tile, in the order wanted.
        clean: axes outside which the copy must give 0: only what leaves the tensor is filled so.
    """
    if not mappable(value.tensor, numpy_dtype(value.tensor.dtype).itemsize):
        return None
    seen: list[Axis] = []
    parts = []
    for position, length in zip(value.indices, value.tensor.shape, strict=True):
        spans = block.geometry.wide(sorted(axes_of(position), key=lambda a: a.name))
        if not spans:
            parts.append(block.indices([position]))
            continue
        span = spans[0]
        form = dict(linear(position).terms)
        entangled = any(span.axis in axes_of(atom) for atom in form if atom != span.axis)
        if len(spans) > 1 or form.get(span.axis) != 1 or entangled:
            return None
        if span.ragged and span.axis in clean and (position != span.axis or length != span.axis.extent):
            return None
        parts.append(_slice(block, position, span))
        seen.append(span.axis)
    return f"{block.memory[value.tensor]}[{', '.join(parts)}]" if tuple(seen) == tuple(order) else None


def _slice(block: Block, position: Expr, span: Span) -> str:
    first = block.first_point(position, span)
    return f"0:{span.extent}" if first == "0" else f"{first}:{first} + {span.extent}"
