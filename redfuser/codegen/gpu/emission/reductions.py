"""Folds over a tile: TileLang's reductions, and loops where the summands are too many to hold at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.expressions import constant
from redfuser.codegen.gpu.emission.geometry import Span
from redfuser.codegen.gpu.emission.layouts import is_serial
from redfuser.codegen.gpu.emission.padding import same
from redfuser.codegen.gpu.emission.selections import write_selection
from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Load
from redfuser.extents import most
from redfuser.tile.ir import Buffer, Reduce
from redfuser.tile.monoid import identity, join

_REDUCERS = {"sum": "T.reduce_sum", "max": "T.reduce_max", "min": "T.reduce_min"}


def write_reduce(block: Block, statement: Reduce, clear: bool) -> None:
    """``target = target ⊕ (⊕ over the tile of value)``.

    Args:
        clear: whether the target, a list, starts empty.

    Raises:
        Refused: TileLang has no such reduction.
    """
    if statement.combiner not in _REDUCERS and statement.rank is None:
        raise Refused("combiner", "TileLang doesn't reduce with this operator", statement.combiner)
    spans = block.geometry.wide(statement.space)
    if statement.rank is not None:
        write_selection(block, statement, _terms(block, statement, spans), clear)
    elif not block.geometry.span(statement.over).wide:
        _combine(block, statement)
    elif is_serial(statement, block.geometry.streamed):
        _fold(block, statement)
    else:
        source = _source(block, statement, spans)
        flags = _flag_nan(block, statement, source) if _drops_nan(block, statement) else ""
        name = block.stored(statement.target).name
        dimension = source.axes.index(statement.over)
        block.lines.add(f"{_REDUCERS[statement.combiner]}({source.name}, {name}, dim={dimension}, clear=False)")
        if flags:
            _put_nan(block, statement.target, flags)
    block.padding.forget(statement.target.tensor)


def _combine(block: Block, statement: Reduce) -> None:
    """One summand for each element of the target."""
    target = statement.target
    joined = block.text(join(statement.combiner, target.value, statement.value))
    block.parallel(block.geometry.wide(target.axes), f"{block.element(target)} = {joined}")


def _fold(block: Block, statement: Reduce) -> None:
    """One summand after another."""
    over = statement.over
    point = block.variable(over)
    extent = block.geometry.sizes.text(over.extent)
    with block.lines.indented(f"for {point} in T.serial({extent}):"):
        block.geometry.streamed[over] = Span(over, 1, 1, point, extent, False)
        _combine(block, statement)
        del block.geometry.streamed[over]


def _drops_nan(block: Block, statement: Reduce) -> bool:
    """Whether a NaN among the elements must be handed on apart: CUDA's extrema pass over it.

    Where the extremum is a base point of exponentials, the NaN shows in their sum.
    See :mod:`redfuser.tile.witnesses`.
    """
    extremum = statement.combiner in ("max", "min") and "float" in statement.value.dtype
    return extremum and statement not in block.passing


def _flag_nan(block: Block, statement: Reduce, source: _Source) -> str:
    """1 for each element of the target that holds or meets a NaN."""
    target = statement.target
    spans = block.geometry.wide(source.axes)
    rows = block.geometry.wide(target.axes)
    flags = block.declare(f"{target.tensor.name}_nan", "fragment", [span.extent for span in rows], "float32")
    terms = block.declare(f"{target.tensor.name}_nans", "fragment", [span.extent for span in spans], "float32")
    one, zero = constant(1.0, "float32"), constant(0.0, "float32")
    element = block.element(target)
    block.parallel(rows, f"{flags}[{block.variables(rows)}] = T.if_then_else(T.isnan({element}), {one}, {zero})")
    where = block.variables(spans)
    block.parallel(spans, f"{terms}[{where}] = T.if_then_else(T.isnan({source.name}[{where}]), {one}, {zero})")
    block.lines.add(f"T.reduce_max({terms}, {flags}, dim={source.axes.index(statement.over)}, clear=False)")
    return flags


def _put_nan(block: Block, target: Buffer, flags: str) -> None:
    rows = block.geometry.wide(target.axes)
    element = block.element(target)
    flagged = f"{flags}[{block.variables(rows)}] > {constant(0.0, 'float32')}"
    nan = constant(float("nan"), target.tensor.dtype)
    block.parallel(rows, f"{element} = T.if_then_else({flagged}, {nan}, {element})")


@dataclass(frozen=True)
class _Source:
    """A fragment of summands, and its axes."""

    name: str
    axes: tuple[Axis, ...]


def _source(block: Block, statement: Reduce, spans: Sequence[Span]) -> _Source:
    """A fragment of the summands with the identity outside."""
    over, value = block.geometry.span(statement.over), statement.value
    buffer = block.buffers.get(value.tensor) if isinstance(value, Load) else None
    if buffer is None or not _reducible(block, buffer, spans):
        return _Source(_terms(block, statement, spans), tuple(span.axis for span in spans))
    if not _clean(block, statement):
        neutral = identity(statement.combiner, value.dtype)
        element = block.element(buffer)
        inside = block.inside([over], value, neutral)
        block.parallel(block.geometry.wide(buffer.axes), f"{element} = {inside}")
        block.padding.known[buffer.tensor, over.axis] = neutral
    kept = block.stored(buffer)
    return _Source(kept.name, kept.axes)


def _terms(block: Block, statement: Reduce, spans: Sequence[Span]) -> str:
    """A new fragment of the summands with the identity outside."""
    value, extents = statement.value, [span.extent for span in spans]
    name = block.declare(
        f"{statement.target.tensor.name}_{'candidates' if statement.rank else 'terms'}",
        "fragment",
        extents,
        value.dtype,
    )
    neutral = identity(statement.combiner, value.dtype)
    outside = [] if _clean(block, statement) else [block.geometry.span(statement.over)]
    block.parallel(spans, f"{name}[{block.variables(spans)}] = {block.inside(outside, value, neutral)}")
    return name


def _clean(block: Block, statement: Reduce) -> bool:
    """Whether the summands are the identity outside the axis folded."""
    over, value = block.geometry.span(statement.over), statement.value
    neutral = identity(statement.combiner, value.dtype)
    return not over.ragged or same(block.padding.value(value, over.axis), neutral)


def _reducible(block: Block, buffer: Buffer, spans: Sequence[Span]) -> bool:
    """Whether a buffer in registers holds just the summands."""
    kept = block.stored(buffer)
    covered = zip(buffer.axes, buffer.tensor.shape, strict=True)
    tile = all(most(points) <= block.geometry.span(axis).points for axis, points in covered)
    plain = kept.scope == "fragment" and kept.dtype == buffer.tensor.dtype
    return tile and plain and set(kept.axes) == {span.axis for span in spans}
