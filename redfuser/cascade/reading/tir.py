"""TIR to definitions: with ``extract.py`` the only file of the cascade stage that imports TVM.

Every block of a lowered PrimFunc that stores one element once becomes a pure
:class:`~redfuser.cascade.graph.Definition`. Anything else makes its binding opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redfuser.cascade.graph import Definition
from redfuser.cascade.reading.selection import selection
from redfuser.cascade.reading.sizes import UnknownSize, extent_of
from redfuser.expr import (
    INDEX,
    Axis,
    Const,
    Expr,
    Load,
    Op,
    Tensor,
    axis,
    cast,
    index,
    load,
    loads,
    number,
    op,
    substitute,
)
from redfuser.extents import Extent
from redfuser.indexing import simplify

if TYPE_CHECKING:
    import tvm

BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "Max": "max",
    "Min": "min",
    "EQ": "eq",
    "NE": "ne",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
    "And": "and",
    "Or": "or",
}

#: TIR intrinsic (without its dialect prefix) -> our operator
INTRINSICS = {
    **{name: name for name in ("exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "floor", "ceil", "trunc")},
    **{name: name for name in ("isnan", "isinf", "pow")},
    "fabs": "abs",
    "nearbyint": "round",
    "round": "round",
    "if_then_else": "select",
}

COMBINERS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


class NotExtractable(Exception):
    """A block isn't one pure store; the message says which construct stands in the way."""


@dataclass(frozen=True)
class Fragment:
    """One PrimFunc: its parameters as tensors, and the definitions of everything it computes, in order."""

    parameters: tuple[Tensor, ...]
    definitions: tuple[Definition, ...]


def extract_primfunc(func: tvm.tirx.PrimFunc, sizes: Mapping[Any, Extent] | None = None) -> Fragment:
    """Read a scheduled-by-nobody PrimFunc.

    Args:
        sizes: what its variables for sizes stand for.

    Raises:
        NotExtractable: a block isn't a pure definition.
    """
    from tvm import tirx

    known = dict(sizes or {})
    tensors: dict[Any, Tensor] = {}
    names: set[str] = set()

    def tensor_of(buffer: Any) -> Tensor:
        if buffer not in tensors:
            name = base = str(buffer.name)
            while name in names:
                name = f"{base}_{len(names)}"
            names.add(name)
            tensors[buffer] = Tensor(name, tuple(_extent(s, known) for s in buffer.shape), str(buffer.dtype))
        return tensors[buffer]

    parameters = tuple(tensor_of(func.buffer_map[p]) for p in func.params if p in func.buffer_map)
    if any(p not in func.buffer_map and p not in known for p in func.params):
        raise NotExtractable("a parameter is not a tensor")
    blocks: list[Any] = []
    realised = 0

    def visit(node: Any) -> None:
        nonlocal realised
        if isinstance(node, tirx.SBlockRealize) and node.block.name_hint != "root":
            blocks.append(node)
        elif isinstance(node, tirx.BufferStore):
            realised += 1

    tirx.stmt_functor.post_order_visit(func.body, visit)
    if len(blocks) == 1 and "redfuser.topk" in blocks[0].block.annotations:
        largest, last = (bool(blocks[0].block.annotations[f"redfuser.{name}"]) for name in ("largest", "last"))
        found = selection(parameters, largest, last)
        if found is None:
            raise NotExtractable("a selection of a type that no pair holds")
        return Fragment(parameters, found)
    definitions = tuple(_definition(block.block, tensor_of, known) for block in blocks)
    if realised != len(definitions) + sum(d.is_reduction for d in definitions):
        raise NotExtractable("a store outside the blocks")
    if len({d.tensor for d in definitions}) != len(definitions):
        raise NotExtractable("a tensor stored by several blocks")
    return Fragment(parameters, definitions)


def _extent(value: Any, known: Mapping[Any, Extent]) -> Extent:
    try:
        return extent_of(value, known)
    except UnknownSize as unknown:
        raise NotExtractable(str(unknown)) from unknown


def _definition(block: Any, tensor_of: Callable[[Any], Tensor], known: Mapping[Any, Extent]) -> Definition:
    from tvm import tirx

    if not isinstance(block.body, tirx.BufferStore):
        raise NotExtractable(f"block {block.name_hint} isn't a single store")
    store = block.body
    axes: dict[Any, Axis] = {}
    folded: list[Axis] = []
    for number_, iterator in enumerate(block.iter_vars):
        coordinate = axis(f"{iterator.var.name}.{number_}", _extent(iterator.dom.extent, known))
        axes[iterator.var] = coordinate
        if iterator.iter_type == tirx.IterVar.CommReduce:
            folded.append(coordinate)
        elif iterator.iter_type != tirx.IterVar.DataPar:
            raise NotExtractable(f"block {block.name_hint} has an opaque axis")
    read = Reader({**axes, **{variable: index(size) for variable, size in known.items()}}, tensor_of)
    tensor = tensor_of(store.buffer)
    body, combiner = read(store.value), ""
    if block.init is not None:
        body, combiner = _split_combiner(body, load(tensor, *(read(i) for i in store.indices)))
    elif folded:
        raise NotExtractable(f"block {block.name_hint} folds without an initial value")
    spatial = _store_axes(store, read, tensor, {a for a in axes.values() if a not in folded})
    rename: dict[Axis, Expr] = {a: index(0) for a in axes.values() if a.extent == 1}
    rename |= {old: new for old, new in spatial}
    body = simplify(substitute(body, rename))
    return Definition(tensor, tuple(new for _, new in spatial), tuple(folded), combiner, body, "")


def _store_axes(store: Any, read: Reader, tensor: Tensor, available: set[Axis]) -> list[tuple[Axis, Axis]]:
    """The axis behind each dimension of the store; a constant index of a length-1 dimension gets an axis of its own."""
    result: list[tuple[Axis, Axis]] = []
    for place, (raw, extent) in enumerate(zip(store.indices, tensor.shape, strict=True)):
        where = simplify(read(raw))
        if isinstance(where, Axis) and where in available and where.extent == extent:
            available.discard(where)
            result.append((where, where))
        elif extent == 1 and isinstance(where, Const) and where.value == 0:
            unit = axis(f"unit.{place}", 1)
            result.append((unit, unit))
        else:
            raise NotExtractable(f"{tensor.name} is stored at {where}, not at an axis")
    if any(a.extent != 1 for a in available):
        raise NotExtractable(f"{tensor.name} is stored more than once")
    return result


def _split_combiner(value: Expr, itself: Load) -> tuple[Expr, str]:
    if isinstance(value, Op) and value.name in COMBINERS:
        for this, other in (value.args, value.args[::-1]):
            if this == itself and all(node != itself for node in loads(other)):
                return other, COMBINERS[value.name]
    raise NotExtractable(f"no known combiner in {value}")


class Reader:
    """TIR expression to :class:`~redfuser.expr.Expr`, over given axes, sizes and tensors."""

    def __init__(self, axes: Mapping[Any, Expr], tensor_of: Callable[[Any], Tensor]) -> None:
        self.axes = axes
        self.tensor_of = tensor_of

    def __call__(self, node: Any) -> Expr:
        """Convert one expression.

        Raises:
            NotExtractable: it contains something that has no counterpart.
        """
        kind = type(node).__name__
        dtype = str(node.dtype)
        if kind in BINARY:
            left, right = self(node.a), self(node.b)
            return op(BINARY[kind], left, right)
        if kind in ("IntImm", "FloatImm"):
            return Const("bool", bool(node.value)) if dtype == "bool" else number(node.value, dtype)
        if kind in ("Var", "SizeVar"):
            if node not in self.axes:
                raise NotExtractable(f"free variable {node.name}")
            return cast(self.axes[node], INDEX)
        if kind == "BufferLoad":
            return load(self.tensor_of(node.buffer), *(self(i) for i in node.indices))
        if kind == "Cast":
            return cast(self(node.value), dtype)
        if kind == "Not":
            return op("not", self(node.a))
        if kind == "Select":
            return op("select", self(node.condition), self(node.true_value), self(node.false_value))
        if kind == "Call":
            name = str(node.op.name).rpartition(".")[2]
            if name in INTRINSICS:
                return op(INTRINSICS[name], *(self(a) for a in node.args))
        raise NotExtractable(f"{kind} {node}")
