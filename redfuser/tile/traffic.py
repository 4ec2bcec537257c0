"""Compulsory memory traffic of a cascade, fused and unfused, and its arithmetic: for the report and the cost model."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import COMPARISONS, PAIR, Axis, Expr, Load, Op, Tensor, axes_of, loads
from redfuser.expr.binding import at_sizes, usual_sizes
from redfuser.expr.evaluate import numpy_dtype
from redfuser.report.value import Traffic
from redfuser.tile.products import split_product
from redfuser.tile.sharing import computed, values

_FREE = COMPARISONS | {"cast", "select", "pair", "value", "position"}
#: Unfused, a selection writes a value of four bytes and a position of eight.
_PAIR_BYTES = 12


def traffic(cascade: Cascade) -> Traffic:
    """What must be moved and computed at least; at usual sizes where some are symbolic.

    * Fused: every input is read once and every output written once.
    * Unfused: each reduction and each computed output is a kernel that reads what its expression loads and
      writes its result; the computed operand of a matrix product is a tensor of its own.
    * Operations: each distinct value once at each point of its axes; a comparison or cast counts nothing.
    """
    sizes = usual_sizes(cascade)
    cascade = at_sizes(cascade, sizes) if sizes else cascade
    items = (*cascade.producers, *cascade.reductions, *cascade.epilogues)
    everything = [*(r.map for r in items), *(o.value for o in cascade.outputs)]
    inputs = set(cascade.inputs)
    read = _bytes_read(node for expr in everything for node in loads(expr) if node.tensor in inputs)
    written = sum(_size(output.tensor) for output in cascade.outputs)
    unfused_read, unfused_written = _unfused(cascade)
    return Traffic(read, written, unfused_read, unfused_written, _operations(items, everything))


def _unfused(cascade: Cascade) -> tuple[int, int]:
    read = written = 0
    operands: set[Expr] = set()
    for reduction in (*cascade.producers, *cascade.reductions, *cascade.epilogues):
        kernel: tuple[Expr, ...] = (reduction.map,)
        split = split_product(reduction.map, reduction.axes, reduction.over, lambda a: a.extent)
        if reduction.combiner == "sum" and split is not None:
            kernel = tuple(operand for operand in split if not computed(operand))
            for operand in split:
                if computed(operand):
                    size = _points(axes_of(operand)) * numpy_dtype(operand.dtype).itemsize
                    read += size
                    if operand not in operands:
                        operands.add(operand)
                        read += _bytes_read(loads(operand))
                        written += size
        read += _bytes_read(node for expr in kernel for node in loads(expr))
        written += _size(reduction.result)
    for output in cascade.outputs:
        if not isinstance(output.value, Load):
            read += _bytes_read(loads(output.value))
            written += _size(output.tensor)
    return read, written


def _bytes_read(nodes: Iterable[Load]) -> int:
    """Each tensor once: no more than it holds, and no more than the loads' axes have points."""
    touched: dict[Tensor, int] = {}
    for node in dict.fromkeys(nodes):
        touched[node.tensor] = touched.get(node.tensor, 0) + _points(axes_of(node))
    return sum(min(n, t.size) * _item(t.dtype) for t, n in touched.items())


def _operations(items: tuple[Reduction, ...], everything: Iterable[Expr]) -> int:
    arithmetic = {
        node for expr in everything for node in values(expr) if isinstance(node, Op) and node.name not in _FREE
    }
    folded = sum(_points((*item.axes, item.over)) for item in items)
    return folded + sum(_points(axes_of(node)) for node in arithmetic)


def _points(axes: Iterable[Axis]) -> int:
    return prod(a.extent for a in axes)


def _size(tensor: Tensor) -> int:
    return tensor.size * _item(tensor.dtype)


def _item(dtype: str) -> int:
    return _PAIR_BYTES if dtype == PAIR else numpy_dtype(dtype).itemsize
