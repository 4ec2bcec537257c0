"""The right factor of a matrix product in the order it is read: panels of columns, one row of a panel after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from redfuser.codegen.cpu.remainder.contraction import Contraction
from redfuser.codegen.cpu.remainder.tiling import Tiling
from redfuser.evaluate import evaluate, open_mesh
from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, index, op
from redfuser.indexing import linear


@dataclass(frozen=True)
class Packing:
    """Panels of a right factor.

    Args:
        tensor: flat, ``outer × panels × depth × width`` elements.
        outer: axes of independent products that the factor varies with.
        reduced: summed axes.
        width: columns of a panel.
        starts: first column of each panel.
    """

    tensor: Tensor
    outer: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    width: int
    starts: tuple[int, ...]

    def address(self, places: Mapping[Axis, Expr], panel: Expr) -> Expr:
        """Where the first column of a panel's row lies."""
        total: Expr = index(0)
        digits = [(places[a], a.extent) for a in self.outer]
        digits += [(panel, len(self.starts)), *((places[a], a.extent) for a in self.reduced)]
        for digit, extent in digits:
            total = op("add", op("mul", total, index(extent)), digit)
        return linear(op("mul", total, index(self.width))).expr()


def plan_packing(work: Contraction, tiling: Tiling, name: str) -> Packing:
    """How the right factor of a contraction is packed."""
    outer = tuple(a for a in work.outer if a in axes_of(work.right))
    last = work.column.extent - tiling.width
    starts = tuple(min(n * tiling.width, last) for n in range(tiling.panels(work.column.extent)))
    size = prod(a.extent for a in outer) * len(starts) * work.depth * tiling.width
    return Packing(Tensor(name, (size,), _stored(work.right).dtype), outer, work.reduced, tiling.width, starts)


def _stored(right: Expr) -> Expr:
    """The factor before it is widened for the sum: half precision is kept as it is."""
    return right.args[0] if isinstance(right, Op) and right.name == "cast" else right


def pack(work: Contraction, packing: Packing, constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    """The packed factor.

    Args:
        constants: contents of every flat tensor the factor loads.
    """
    axes = (*packing.outer, *packing.reduced, work.column)
    values = _matrix(_stored(work.right), axes, constants)
    columns = values.reshape(prod(a.extent for a in packing.outer), work.depth, work.column.extent)
    panels = [columns[:, :, start : start + packing.width] for start in packing.starts]
    return np.stack(panels, axis=1).reshape(-1)


def _matrix(value: Expr, axes: tuple[Axis, ...], constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
    """An expression at every point, in the order of the axes; a view where it is one affine load."""
    shape = tuple(a.extent for a in axes)
    if isinstance(value, Load):
        form = linear(value.indices[0])
        strides = dict(form.terms)
        if all(atom in axes for atom in strides) and form.constant >= 0:
            data = constants[value.tensor][form.constant :]
            steps = tuple(strides.get(a, 0) * data.itemsize for a in axes)
            return np.lib.stride_tricks.as_strided(data, shape, steps, writeable=False)
    return np.broadcast_to(evaluate(value, constants, open_mesh(axes)), shape)
