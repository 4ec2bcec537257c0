"""Loops around leaves: consecutive nests share a loop where no value crosses from one iteration to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redfuser.codegen.cpu.bytes.products import ByteProducts
from redfuser.codegen.cpu.lowering.leaves import Leaves
from redfuser.codegen.cpu.lowering.nests import BlockProduct, Nest, Product, Transpose
from redfuser.codegen.cpu.lowering.operands import Operand
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.products import Products
from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis, Tensor, index, op


class Loops:
    """Writes sequences of nests.

    Args:
        leaves: the writer of the innermost statements.
        layouts: on-chip buffers, whose axes say what depends on what.
        machine: gives the size of blocks.
        bytes_: the writer of products of bytes, where there are any.
        operands: of other products: what can be read ahead of.
    """

    def __init__(
        self,
        leaves: Leaves,
        layouts: dict[Tensor, Layout],
        machine: Machine,
        bytes_: ByteProducts | None,
        operands: Mapping[Tensor, Sequence[Operand]],
    ) -> None:
        self.leaves = leaves
        self.bytes_ = bytes_
        self.products = Products(leaves, operands)
        self.builder = leaves.builder
        self.layouts = layouts
        self.machine = machine

    def write(self, nests: Sequence[Nest], region: Region) -> None:
        """Write nests one after another, in shared loops where that is allowed."""
        rest = list(nests)
        while rest:
            run = self._run(rest, region)
            rest = rest[len(run) :]
            if run[0].loops:
                self._loop(run, region)
            elif isinstance(run[0].leaf, BlockProduct):
                self._block(run[0].leaf, region)
            elif isinstance(run[0].leaf, Product):
                self.products.write(run[0], region)
            elif isinstance(run[0].leaf, Transpose):
                self.leaves.transpose(run[0], region)
            else:
                self.leaves.write(run, region)

    def _block(self, product: BlockProduct, region: Region) -> None:
        assert self.bytes_ is not None
        tensor = product.target.tensor
        self.bytes_.write(product, region, self.leaves.access.arrays[tensor], self.layouts[tensor].strides[product.row])

    def _run(self, nests: Sequence[Nest], region: Region) -> list[Nest]:
        """The longest leading part that one loop, or one group of leaves, can hold."""
        run = [nests[0]]
        for nest in nests[1:]:
            together = self._share(run, nest, region) if run[0].loops else self._level(run, nest, region)
            if not together:
                break
            run.append(nest)
        return run

    def _level(self, run: Sequence[Nest], nest: Nest, region: Region) -> bool:
        return not nest.loops and self.leaves.alike(run[0], nest, region)

    def _share(self, run: Sequence[Nest], nest: Nest, region: Region) -> bool:
        """Whether ``nest`` can be computed iteration by iteration together with all of ``run``."""
        outer = run[0].loops[0]
        if not nest.loops or nest.loops[0] != outer:
            return False
        steps = {step for item in (*run, nest) if (step := self._step(item, outer, region))}
        return len(steps) < 2 and all(self._independent(item, nest, outer) for item in run)

    def _independent(self, first: Nest, second: Nest, loop: Axis) -> bool:
        """Whether whatever one of two nests writes and the other touches belongs to one iteration of the loop."""
        if isinstance(first.leaf, Prefetch) or isinstance(second.leaf, Prefetch):
            return True
        touched = {first.writes} & (second.reads | {second.writes}) | (first.reads & {second.writes})
        return all(tensor in self.layouts and loop in self.layouts[tensor].strides for tensor in touched)

    def _step(self, nest: Nest, loop: Axis, region: Region) -> int:
        """How many points of a loop a nest handles at once; 0 if it takes any number."""
        width = region.width(loop)
        if loop == nest.vector:
            return self.machine.chunk(width)
        if loop == nest.block and isinstance(nest.leaf, Transpose):
            return min(self.leaves.lanes, width)
        if loop == nest.block and isinstance(nest.leaf, Product):
            across = region.width(nest.vector) if nest.vector is not None else 1
            vectors = -(-self.machine.chunk(across) // self.leaves.lanes)
            return min(self.machine.rows(vectors), width)
        return 1 if isinstance(nest.leaf, Product) else 0

    def _loop(self, run: Sequence[Nest], region: Region) -> None:
        """One loop around the run; the points that whole steps leave over come after it."""
        loop = run[0].loops[0]
        width = region.width(loop)
        step = max(self._step(nest, loop, region) for nest in run) or 1
        folds = [nest for nest in run if nest.folds_lanes and nest.vector == loop]
        rows = _rows(run, folds, region)
        if rows is not None:
            with self.builder.loop(rows.name, region.width(rows)) as number:
                self._loop(run, region.narrow(rows, number, 1))
            return
        for nest in folds:
            self.leaves.open_fold(nest, region, step)
        inner = [nest.inner for nest in run]
        full, rest = divmod(width, step)
        if full:
            with self.builder.loop(loop.name, full) as number:
                self.write(inner, region.narrow(loop, op("mul", number, index(step)), step))
        if rest:
            self.write(inner, region.narrow(loop, index(full * step), rest))
        for nest in folds:
            self.leaves.close_fold(nest, region)


def _rows(run: Sequence[Nest], folds: Sequence[Nest], region: Region) -> Axis | None:
    """Rows that are summed one after another, each in registers, where nothing else is done in the loop."""
    if not folds or not all(nest in folds or isinstance(nest.leaf, Prefetch) for nest in run):
        return None
    shared = [a for a in folds[0].axes if a != folds[0].vector and region.width(a) > 1]
    return shared[0] if shared and all(shared[0] in nest.axes for nest in run) else None
