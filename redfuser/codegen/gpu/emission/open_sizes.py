"""Sizes that are known on the call only: what they are called in a script, and where they can't be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Tensor
from redfuser.extents import Dim, Extent, is_symbolic, most, terms_of
from redfuser.tile.ir import Contract, Phase, Reduce, Statement, Stream

#: A tensor map's strides must be multiples of so many bytes.
MAP_BYTES = 16
#: Points of an open axis that a block may hold whole.
SHORT = 32


@dataclass(frozen=True)
class Sizes:
    """Text of sizes.

    Args:
        names: the variable that stands for each dimension in the script.
    """

    names: Mapping[Dim, str] = field(default_factory=dict)

    def text(self, size: Extent) -> str:
        """A size; in parentheses where it is more than one word."""
        if not is_symbolic(size):
            return str(size)
        sums = []
        for monomial, factor in terms_of(size):
            factors = [str(factor)] * (factor != 1 or not monomial)
            sums.append(" * ".join([*factors, *(self.names[dim] for dim in monomial)]))
        text = " + ".join(sums)
        return f"({text})" if " " in text else text


def require_tiles(phase: Phase) -> None:
    """Check that nothing of open size is held whole on chip, unless it is short at its largest size.

    Raises:
        Refused: something is.
    """
    for buffer in phase.buffers:
        for axis, points in zip(buffer.axes, buffer.tensor.shape, strict=True):
            if _long(points):
                raise _whole(axis)
    tiled = {tile.axis for tile in phase.grid}
    _require_folds(phase.body, tiled)


def _require_folds(body: Sequence[Statement], tiled: set[Axis]) -> None:
    for statement in body:
        if isinstance(statement, Stream):
            _require_folds(statement.body, tiled | {statement.axis})
        elif isinstance(statement, Reduce | Contract):
            over = statement.over
            if _long(over.extent) and over not in tiled:
                raise _whole(over)


def _long(points: Extent) -> bool:
    return is_symbolic(points) and most(points) > SHORT


def _whole(axis: Axis) -> Refused:
    text = "a block would hold all of an axis whose size is open: --dim fixes it"
    return Refused("open-size", text, f"{axis.name} of {axis.extent}")


def mappable(tensor: Tensor, item: int) -> bool:
    """Whether a tensor map can describe a tensor whatever its open sizes are.

    Args:
        item: bytes of an element.
    """
    stride: Extent = item
    for extent in reversed(tensor.shape[1:]):
        stride = stride * extent
        if is_symbolic(stride) and any(factor % MAP_BYTES for _, factor in terms_of(stride)):
            return False
    return True
