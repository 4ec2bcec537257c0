"""Recognises sums of products of bytes channel by channel: a window of an image times a weight of its own. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from redfuser.cascade.graph import Definition
from redfuser.codegen.cpu.remainder.flat import address, flat, flatten, normalise, stride
from redfuser.codegen.cpu.remainder.products.contraction import epilogue_of, places_of
from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, axis, load, substitute
from redfuser.extents import is_symbolic
from redfuser.indexing import Linear, linear

#: Fewer channels than this fill no vector of sums.
FEWEST = 16


@dataclass(frozen=True)
class ChannelSums:
    """``target[address] = epilogue(Σ over a window of image · weight)``, for each channel by itself.

    All expressions load flat tensors.

    Args:
        outer: axes of independent rows.
        row: the axis before the channels: neighbours share what they read.
        column: the channels, contiguous everywhere.
        reduced: axes of the window.
        image: uint8.
        weight: whole numbers; its address depends on the window and the channel alone.
        total: stands for the sum in ``epilogue``.
        target: what is stored.
        address: where.
        epilogue: the value, in terms of ``total`` and of tensors in memory.
    """

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    reduced: tuple[Axis, ...]
    image: Load
    weight: Load
    total: Load
    target: Tensor
    address: Expr
    epilogue: Expr

    def groups(self, size: int) -> list[tuple[tuple[int, int | None], ...]]:
        """Elements of the window, so many at a time: how far each lies from the first in image and weight.

        Those of a group lie across the axis along which neighbours share them; a group is filled up with elements
        that have no weight.
        """
        image, weight = (linear(node.indices[0]) for node in (self.image, self.weight))
        along = min(self.reduced, key=lambda a: stride(image, a))
        across = [a for a in self.reduced if a != along] or [along]
        outer = [along] if len(self.reduced) > 1 else []
        found: list[tuple[tuple[int, int | None], ...]] = []
        for first in product(*(range(a.extent) for a in outer)):
            places = [dict(zip((*outer, *across), (*first, *rest), strict=True)) for rest in _points(across)]
            offsets = [(_moved(image, place), _moved(weight, place)) for place in places]
            for start in range(0, len(offsets), size):
                some: list[tuple[int, int | None]] = list(offsets[start : start + size])
                found.append(tuple(some + [(some[-1][0], None)] * (size - len(some))))
        return found

    def __str__(self) -> str:
        spans = ", ".join(f"{a.name}<{a.extent}" for a in (*self.outer, self.row, self.column))
        over = ", ".join(f"{a.name}<{a.extent}" for a in self.reduced)
        return (
            f"for {spans}: {self.total} = sum over {over} of {self.image} · {self.weight}; "
            f"{self.target.name}[{self.address}] = {self.epilogue}"
        )


@dataclass(frozen=True)
class ChannelPacking:
    """The weight in the order that sums read it: by blocks of channels, groups, panels, channels, elements of a group.

    Args:
        tensor: the packed weight, flat.
        value: an element of the weight.
        groups: where each element lies from the weight's first; None for none.
        starts: first channel of each block.
        block, panel: channels of each.
    """

    tensor: Tensor
    value: Load
    groups: tuple[tuple[int | None, ...], ...]
    starts: tuple[int, ...]
    block: int
    panel: int

    def pack(self, constants: Mapping[Tensor, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The packed weight, flat.

        Args:
            constants: contents of the flat tensor that holds it.
        """
        data = constants[self.value.tensor][linear(self.value.indices[0]).constant :]
        none = np.zeros(self.block, self.tensor.dtype)
        blocks = [
            np.stack([none if offset is None else data[offset + start :][: self.block] for offset in group], -1)
            for start in self.starts
            for group in self.groups
        ]
        packed: np.ndarray[Any, Any] = np.concatenate(blocks).astype(self.tensor.dtype).reshape(-1)
        return packed


def recognise_channels(summed: Definition, final: Definition) -> ChannelSums | None:
    """Such sums and what is done with them, or None. Whether the weight's numbers are of 8 bits isn't looked at.

    Args:
        summed: the reduction.
        final: the element-wise definition of the result; ``summed`` itself if nothing follows.
    """
    factors = summed.body.args if isinstance(summed.body, Op) and summed.body.name == "mul" else ()
    places = places_of(summed, final)
    if summed.combiner != "sum" or summed.tensor.dtype != "int32" or len(factors) != 2 or places is None:
        return None
    total = load(Tensor("total", (1,), "int32"), Const("int64", 0))
    exprs = [flatten(substitute(factor, places)) for factor in factors]
    exprs += [address(final.tensor, final.axes), flatten(epilogue_of(summed, final, total))]
    spatial = normalise(final.axes, exprs)
    summing = normalise(summed.reduced, spatial.exprs)
    *both, where, epilogue = summing.exprs
    loads = [inner for factor in both if (inner := _whole(factor))]
    image = next((node for node in loads if node.dtype == "uint8"), None)
    weight = next((node for node in loads if node.dtype != "uint8"), None)
    if image is None or weight is None or len(spatial.axes) < 1 or not summing.axes:
        return None
    *outer, column = spatial.axes
    row = outer.pop() if outer else axis("row", 1)
    result = ChannelSums(
        tuple(outer), row, column, summing.axes, image, weight, total, flat(final.tensor), where, epilogue
    )
    return result if _is_regular(result) else None


def _is_regular(sums: ChannelSums) -> bool:
    """Whether channels are contiguous, and places affine and known."""
    image, weight = (linear(node.indices[0]) for node in (sums.image, sums.weight))
    contiguous = all(stride(form, sums.column) == 1 for form in (image, weight, linear(sums.address)))
    affine = all(isinstance(atom, Axis) for form in (image, weight) for atom, _ in form.terms)
    own = {atom for atom, _ in weight.terms} <= {*sums.reduced, sums.column}
    known = not any(is_symbolic(a.extent) for a in (sums.row, sums.column, *sums.reduced))
    return contiguous and affine and own and known and sums.column.extent >= FEWEST


def _whole(factor: Expr) -> Load | None:
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "cast" else factor
    return inner if isinstance(inner, Load) and inner.dtype in ("int8", "uint8", "int32") else None


def _points(axes: list[Axis]) -> list[tuple[int, ...]]:
    return list(product(*(range(a.extent) for a in axes)))


def _moved(form: Linear, place: Mapping[Axis, int]) -> int:
    """How far the point of a window lies from its first."""
    return sum(stride(form, a) * number for a, number in place.items())
