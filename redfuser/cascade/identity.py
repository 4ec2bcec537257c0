"""What makes two cascades the same across processes and machines: a digest of their structure. No TVM."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, Op, Symbol, walk
from redfuser.expr.binding import dims_in


def cascade_digest(cascade: Cascade) -> str:
    """SHA-256 of a canonical cascade, as hexadecimal text; names of ONNX nodes don't enter."""
    writer = _Writer()
    writer.line("axis", *map(writer.axis, (cascade.axis, *cascade.rows)))
    for dim in dims_in(cascade):
        writer.line("dim", dim.name, str(dim.low), str(dim.high))
    writer.line("inputs", *map(str, cascade.inputs))
    if cascade.normal:
        writer.line("normal", *map(str, cascade.normal))
    for item in (*cascade.producers, *cascade.reductions):
        writer.reduction(item)
    for output in cascade.outputs:
        positions = [writer.value(expr) for expr in output.indices]
        writer.line(
            "output", str(output.tensor), *map(writer.axis, output.axes), *positions, writer.value(output.value)
        )
    return writer.hash.hexdigest()


class _Writer:
    """Writes each distinct expression once and refers to it by number: shared parts stay shared."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.numbers: dict[Expr, str] = {}

    def line(self, *words: str) -> None:
        self.hash.update(("\x1f".join(words) + "\n").encode())

    def axis(self, axis: Axis) -> str:
        return f"{axis.name}<{axis.extent}"

    def reduction(self, item: Reduction) -> None:
        over = (self.axis(item.over), *map(self.axis, item.axes))
        self.line("reduction", str(item.result), item.combiner, *over, self.value(item.map))

    def value(self, expr: Expr) -> str:
        for node in walk(expr):
            if node not in self.numbers:
                children = [self.numbers[child] for child in node.children]
                self.numbers[node] = f"%{len(self.numbers)}"
                self.line(self.numbers[node], node.dtype, *_label(node), *children)
        return self.numbers[expr]


def _label(node: Expr) -> Iterable[str]:
    """What a node is, besides its type and children."""
    if isinstance(node, Const):
        return "const", repr(node.value)
    if isinstance(node, Axis):
        return "axis", node.name, str(node.extent)
    if isinstance(node, Load):
        return "load", str(node.tensor)
    if isinstance(node, Symbol):
        return "size", str(node.size)
    assert isinstance(node, Op)
    return "op", node.name
