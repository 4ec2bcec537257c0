"""Statements as loop nests: the axes each runs over, and the one that lies along the vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from redfuser.codegen.cpu.bytes.panels import Panels
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, number, substitute
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Reduce, Statement, Store, Stream

#: Fewer points than this aren't worth a vector.
FEW = 4


@dataclass(frozen=True)
class Transpose:
    """``target = value``, computed in vectors along one axis and stored in vectors along another."""

    target: Buffer
    value: Expr
    along: Axis


@dataclass(frozen=True)
class Product:
    """A contraction with what comes before and after it, all on values in registers.

    ``target = finish(initial + Σ over `over` of left · right)``

    Args:
        initial: what the sum starts from; the target's present value if nothing precedes.
        finish: in terms of the target, whose load stands for the sum; that load alone if nothing follows.
        dots: computed as dot products, with vectors along ``over``.
    """

    target: Buffer
    left: Expr
    right: Expr
    over: Axis
    initial: Expr
    finish: Expr
    dots: bool = False


@dataclass(frozen=True)
class BlockProduct:
    """``target = Σ left · right``, bytes summed in int32 over all there is: a block at once, with its own loops.

    Args:
        left: rows of bytes in memory, adjacent along the sum.
        right: a matrix of bytes in memory, read packed.
        row: the widest axis that ``left`` alone has.
        column: the axis that ``right`` alone has.
        over: the axis summed.
        panels: how ``right`` is packed.
        few_rows: whether so few blocks of rows read a panel that each packs it for itself.
    """

    target: Buffer
    left: Load
    right: Load
    row: Axis
    column: Axis
    over: Axis
    panels: Panels
    few_rows: bool


Leaf = Map | Reduce | Store | Transpose | Product | Prefetch | BlockProduct


@dataclass(frozen=True)
class Nest:
    """One leaf and the loops still to be put around it, outermost first.

    Args:
        vector: axis along the vector lanes; ``None`` for a scalar.
        block: a second axis that the leaf itself handles several points of: rows of a register tile, or the other
            side of a transposition.
    """

    leaf: Leaf
    loops: tuple[Axis, ...]
    vector: Axis | None
    block: Axis | None = None

    @property
    def inner(self) -> Nest:
        """The nest without its outermost loop."""
        return replace(self, loops=self.loops[1:])

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes that the leaf's points differ along."""
        if isinstance(self.leaf, Store | Prefetch):
            return self.leaf.axes
        return self.leaf.space if isinstance(self.leaf, Reduce) else self.leaf.target.axes

    @property
    def writes(self) -> Tensor:
        """The buffer or tensor written, or that will be."""
        return self.leaf.tensor if isinstance(self.leaf, Store | Prefetch) else self.leaf.target.tensor

    @property
    def reads(self) -> frozenset[Tensor]:
        """Buffers and tensors read, the target included where it is updated."""
        read = {node.tensor for part in operands_of(self.leaf) for node in value_loads(part)}
        return frozenset(read | ({self.writes} if isinstance(self.leaf, Reduce) else set()))

    @property
    def folds_lanes(self) -> bool:
        """Whether this is a reduction along the vector: lanes are folded together at the end."""
        return isinstance(self.leaf, Reduce) and self.leaf.over == self.vector


def operands_of(leaf: Leaf) -> tuple[Expr, ...]:
    """The values a leaf computes with."""
    if isinstance(leaf, Prefetch):
        return ()
    if isinstance(leaf, Product):
        return leaf.left, leaf.right, leaf.initial, leaf.finish
    if isinstance(leaf, BlockProduct):
        return leaf.left, leaf.right
    return (leaf.value,)


def merge_products(statements: Sequence[Statement]) -> Iterator[Leaf | Stream]:
    """Join each contraction with the fill or map of its target just before it, and the maps of it just after."""
    leaves: list[Leaf | Stream] = []
    for statement in statements:
        last = leaves[-1] if leaves else None
        if isinstance(statement, Fill):
            dtype = statement.target.tensor.dtype
            statement = Map(statement.target, number(statement.value, dtype))
        if isinstance(statement, Contract):
            target = statement.target
            initial: Expr = target.value
            if isinstance(last, Map) and last.target == target:
                initial = last.value
                leaves.pop()
            product = Product(target, statement.left, statement.right, statement.over, initial, target.value)
            leaves.append(product)
        elif isinstance(statement, Map) and isinstance(last, Product) and _continues(statement, last):
            finish = substitute(statement.value, {last.target.value: last.finish})
            leaves[-1] = Product(last.target, last.left, last.right, last.over, last.initial, finish)
        else:
            leaves.append(statement)
    yield from leaves


def _continues(statement: Map, product: Product) -> bool:
    """Whether a map updates what a contraction has just computed, point by point."""
    return statement.target == product.target and any(
        node == product.target.value for node in value_loads(statement.value)
    )


def make_nest(leaf: Leaf, strides: Strides, lanes: Axis | None) -> Nest:
    """The loops of a leaf; axes of one point need none."""
    sizes = strides.sizes

    def wide(axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(a for a in axes if sizes[a] > 1)

    if isinstance(leaf, BlockProduct):
        return Nest(leaf, (), None)
    if isinstance(leaf, Store):
        return Nest(leaf, wide(leaf.axes), store_vector(leaf, strides))
    if isinstance(leaf, Prefetch):
        return Nest(leaf, wide(leaf.axes), lanes if lanes in wide(leaf.axes) else None)
    lane = _lane(leaf.target, strides, sizes)
    if isinstance(leaf, Reduce) and leaf.rank is not None:
        return Nest(leaf, (*wide(leaf.space[:-1]), leaf.over), lane if lane != leaf.rank else None)
    if isinstance(leaf, Reduce):
        across = sizes[leaf.over] > 1 and (lane is None or leaf.over == lanes)
        along = leaf.over if across else lane
        return Nest(leaf, (*wide(leaf.target.axes), leaf.over), along)
    loops = wide(leaf.target.axes)
    if isinstance(leaf, Product):
        rows = [a for a in loops if a != lane]
        leaf = replace(leaf, dots=lane is not None and _as_dots(leaf, lane, strides))
        return Nest(leaf, loops, lane, max(rows, key=lambda a: sizes[a], default=None))
    if isinstance(leaf, Map) and lane is not None and not strides.smooth(leaf.value, lane):
        other = transposing_axis(leaf.value, leaf.target.axes, lane, strides)
        if other is not None:
            rest = tuple(a for a in loops if a not in (lane, other))
            return Nest(Transpose(leaf.target, leaf.value, other), (*rest, lane, other), lane, other)
    return Nest(leaf, loops, lane)


def _as_dots(product: Product, lane: Axis, strides: Strides) -> bool:
    sides = product.left, product.right
    varying = [side for side in sides if lane in axes_of(side)]
    if len(varying) != 1 or strides.smooth(varying[0], lane):
        return False
    other = sides[1] if varying[0] is sides[0] else sides[0]
    return dots(varying[0], other, product, lane, strides)


def dots(side: Expr, other: Expr, product: Product | Contract, lane: Axis, strides: Strides) -> bool:
    """Whether a contraction is best done as dot products: few rows share an operand that is adjacent along the sum.

    Args:
        side: the operand that varies along the lanes, across which it lies in memory.
        other: the operand that doesn't.
    """
    over = product.over
    rows = prod(strides.sizes[a] for a in product.target.axes if a != lane)
    plain = isinstance(side, Load) and isinstance(other, Load) and lane not in axes_of(other)
    adjacent = all(strides.of_load(node, over) == 1 for part in (side, other) for node in value_loads(part))
    return plain and adjacent and strides.sizes[over] >= FEW and rows <= FEW


def _lane(target: Buffer, strides: Strides, sizes: Mapping[Axis, int]) -> Axis | None:
    lane = strides.layouts[target.tensor].lane
    return lane if lane is not None and sizes[lane] > 1 else None


def store_vector(leaf: Store, strides: Strides) -> Axis | None:
    """The axis whose neighbours are adjacent in memory; else one whose neighbours are adjacent on chip."""
    wide = [a for a in leaf.axes if strides.sizes[a] > 1]
    for coordinate in wide:
        if strides.of_position(leaf.tensor.shape, leaf.indices, coordinate) == 1:
            return coordinate
    smooth = [a for a in wide if strides.smooth(leaf.value, a)]
    return smooth[-1] if smooth else None


def transposing_axis(value: Expr, axes: Sequence[Axis], lane: Axis, strides: Strides) -> Axis | None:
    """An axis other than ``lane`` along which a value is best computed."""
    for coordinate in axes:
        wide = min(strides.sizes[coordinate], strides.sizes[lane]) >= FEW
        if coordinate != lane and wide and strides.smooth(value, coordinate):
            return coordinate
    return None
