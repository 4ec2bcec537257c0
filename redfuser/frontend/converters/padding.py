"""Pad along some or all axes."""

from __future__ import annotations

from tvm import relax, te, tirx, topi
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs, constant, extents_of, optional, rank_of, symbols_of


def convert_pad(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Pad by constant amounts, which may be negative and then cut off; by one number, the edge or a reflection.

    Raises:
        OutOfRange: an open dimension may have fewer elements than are reflected.
        ValueError: a static one has.
    """
    data, filler, chosen = inputs[0], optional(inputs, 2), optional(inputs, 3)
    rank = rank_of(data)
    amounts = constant(inputs[1], "pads").tolist()
    axes = range(rank) if chosen is None else [axis % rank for axis in constant(chosen, "axes").tolist()]
    before, after = [0] * rank, [0] * rank
    for axis, low, high in zip(axes, amounts[: len(amounts) // 2], amounts[len(amounts) // 2 :], strict=True):
        before[axis], after[axis] = int(low), int(high)
    data = _cut(bb, data, before, after)
    wider = [max(amount, 0) for amount in before], [max(amount, 0) for amount in after]
    mode = attributes.get("mode", b"constant")
    if mode == b"constant":
        if filler is not None and not isinstance(filler, relax.Constant):
            number = bb.emit(R.reshape(filler, (1,)))
            return bb.emit_te(_padded, data, number, *wider, primfunc_name_hint="pad")
        value = 0 if filler is None else filler.data.numpy().reshape(-1)[0].item()
        return bb.emit_te(topi.nn.pad, data, *wider, value)
    if mode == b"reflect":
        for extent, low, high in zip(extents_of(data), *wider, strict=True):
            symbols_of(attributes).require_least(extent, max(low, high) + 1)
        return bb.emit_te(topi.nn.mirror_pad, data, *wider, "REFLECT")
    if mode == b"edge":
        return bb.emit_te(topi.nn.replicate_pad, data, *wider)
    raise ValueError(f"mode {mode.decode()} is not supported")


def _padded(data: te.Tensor, number: te.Tensor, before: list[int], after: list[int]) -> te.Tensor:
    """Padded by a number that is known on the call only."""
    shape = [n + low + high for n, low, high in zip(data.shape, before, after, strict=True)]

    def element(*where: te.Var) -> te.PrimExpr:
        inside = [i - low for i, low in zip(where, before, strict=True)]
        tests = [i >= low for i, low in zip(where, before, strict=True) if low]
        tests += [i < n for i, n, high in zip(inside, data.shape, after, strict=True) if high]
        return tirx.if_then_else(tirx.all(*tests), data[tuple(inside)], number[0]) if tests else data[tuple(inside)]

    return te.compute(shape, element, name="pad")


def _cut(bb: relax.BlockBuilder, data: relax.Expr, before: list[int], after: list[int]) -> relax.Expr:
    """The data less what negative amounts cut off."""
    if min(*before, *after) >= 0:
        return data
    axes = range(len(before))
    starts = [max(-amount, 0) for amount in before]
    ends = [extent + min(amount, 0) for extent, amount in zip(extents_of(data), after, strict=True)]
    return bb.emit(R.strided_slice(data, list(axes), starts, ends))
