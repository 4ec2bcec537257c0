"""The right factor of a matrix product in the order it is read: panels of columns, one row of a panel after another.

The last panel is moved back so that it ends with the matrix: all are full. A panel may be cut into strips of columns,
one behind the other: they are read side by side, so that more memory is on its way at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from redfuser.cascade.graph import Definition
from redfuser.codegen.cpu.remainder.flat import stride
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, axis, index, loads, op
from redfuser.expr.evaluate import evaluate, open_mesh
from redfuser.extents import most
from redfuser.indexing import linear, replace

#: A factor is packed on every call if so many rows share the work, or else read where it is …
MIN_ROWS = 16

#: … unless its rows are nearer to each other than this, where packing gains nothing …
NEAR_BYTES = 2048

#: … or it would take more memory than this.
MOST_BYTES = 1 << 28

#: Elements between strips, a cache line of float32: without, strips of a power of two of bytes would meet in the cache.
GAP = 16


@dataclass(frozen=True)
class Packing:
    """Panels of a right factor.

    Args:
        tensor: ``outer × panels × strips × reduced × strip`` elements, flat; a gap after each strip if there are some.
        value: the factor as it is stored; half precision isn't widened before it is used.
        outer: axes of independent products that the factor varies with.
        reduced: summed axes.
        column: the axis cut into panels.
        width: columns of a panel.
        strip: columns of a strip; those of a panel where there is but one.
        together: rows that lie side by side, column by column: two where an instruction multiplies pairs.
    """

    tensor: Tensor
    value: Expr
    outer: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    column: Axis
    width: int
    strip: int
    together: int = 1

    @property
    def strip_size(self) -> int:
        """Elements from one strip of a panel to the next."""
        return self.depth * self.strip + (GAP if self.strip < self.width else 0)

    @property
    def panel_size(self) -> int:
        """Elements from one panel to the next."""
        return self.width // self.strip * self.strip_size

    @property
    def starts(self) -> tuple[int, ...]:
        """First column of each panel."""
        last = self.column.extent - self.width
        return tuple(min(start, last) for start in range(0, self.column.extent, self.width))

    @property
    def depth(self) -> int:
        """Rows of a panel."""
        return prod(a.extent for a in self.reduced)

    def address(self, places: Mapping[Axis, Expr], panel: Expr) -> Expr:
        """Where the first column of a panel's row lies; of rows that lie side by side, the first one's."""
        number = _number([*((places[a], a.extent) for a in self.outer), (panel, len(self.starts))])
        row = op("mul", self.summand(places), index(self.strip))
        return linear(op("add", op("mul", number, index(self.panel_size)), row)).expr()

    def summand(self, places: Mapping[Axis, Expr]) -> Expr:
        """Number of a row inside its panel."""
        return _number([(places[a], a.extent) for a in self.reduced])

    def definition(self) -> Definition:
        """The packed factor as an element-wise definition, for one that is known on the call only."""
        panel, lane = axis("panel", len(self.starts)), axis("lane", self.width)
        start = op("min", op("mul", panel, index(self.width)), index(self.starts[-1]))
        body = replace(self.value, {self.column: op("add", start, lane)})
        axes = (*self.outer, panel, *self.reduced, lane)
        tensor = Tensor(self.tensor.name, tuple(a.extent for a in axes), self.tensor.dtype)
        return Definition(tensor, axes, (), "", body, "")

    def matrices(self, constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
        """The factor as it is, (independent products, depth, columns).

        Args:
            constants: contents of every flat tensor it loads.
        """
        values = _matrix(self.value, (*self.outer, *self.reduced, self.column), constants)
        return values.reshape(-1, self.depth, self.column.extent)

    def pack(self, constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
        """The packed factor, flat.

        Args:
            constants: contents of every flat tensor the factor loads.
        """
        columns = self.matrices(constants)
        starts = [start + strip for start in self.starts for strip in range(0, self.width, self.strip)]
        packed = np.zeros((len(columns), len(starts), self.strip_size), columns.dtype)
        rows = packed[:, :, : self.depth * self.strip].reshape(len(columns), len(starts), self.depth, self.strip)
        for number, start in enumerate(starts):
            strip = columns[:, :, start : start + self.strip]
            groups = strip.reshape(len(columns), -1, self.together, self.strip).swapaxes(2, 3)
            rows[:, number] = groups.reshape(strip.shape)
        return packed.reshape(-1)


def plan_packing(work: Contraction, tiling: Tiling, name: str, in_strips: bool = False, together: int = 1) -> Packing:
    """How the right factor of a contraction is packed.

    Args:
        in_strips: whether panels are cut into strips of a vector, as the tiling may ask for.
        together: rows that lie side by side; they divide the sum.
    """
    value = work.right.args[0] if isinstance(work.right, Op) and work.right.name == "cast" else work.right
    outer = tuple(a for a in work.outer if a in axes_of(value))
    strip = tiling.lanes if in_strips and tiling.strips else tiling.width
    empty = Tensor(name, (0,), value.dtype)
    packing = Packing(empty, value, outer, work.reduced, work.column, tiling.width, strip, together)
    size = prod(a.extent for a in outer) * tiling.panels(work.column.extent) * packing.panel_size
    return dataclasses.replace(packing, tensor=Tensor(name, (size,), value.dtype))


def repays(work: Contraction, packing: Packing) -> bool:
    """Whether it is worth while to pack a factor on every call."""
    if most(work.row.extent) < MIN_ROWS or most(packing.tensor.size) * 4 > MOST_BYTES:
        return False
    forms = [linear(node.indices[0]) for node in loads(packing.value)]
    steps = [abs(stride(form, work.reduced[-1])) * 4 for form in forms]
    return not work.contiguous or max(steps, default=0) >= NEAR_BYTES


def _number(digits: Sequence[tuple[Expr, int]]) -> Expr:
    """A number from its digits in mixed radix, given with their extents, most significant first."""
    total: Expr = index(0)
    for digit, extent in digits:
        total = op("add", op("mul", total, index(extent)), digit)
    return linear(total).expr()


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
