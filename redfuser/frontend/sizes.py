"""Small integer tensors that are computed from shapes, as expressions over symbolic dimensions.

Exporters spell the shape of a Reshape as Shape, Gather, Mul, Concat …; with symbolic dimensions these nodes can't be
folded to constants. They are evaluated here, element by element, so that what is reshaped has a shape that is known as
an expression. Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from redfuser.frontend.symbols import Symbols, expression

#: Arrays of Python integers and of ``tirx`` expressions.
Array = np.ndarray[Any, Any]
Evaluate = Callable[[Symbols, Sequence[Array | None], Mapping[str, Any]], Array]

#: Larger tensors than this aren't shapes.
MOST_ELEMENTS = 64

#: Inputs that converters take as sizes; everywhere else sizes become tensors.
SHAPE_INPUTS: dict[str, frozenset[int]] = {
    "Append": frozenset([3]),
    "ConstantOfShape": frozenset([0]),
    "Expand": frozenset([1]),
    "Range": frozenset([0, 1, 2]),
    "Reshape": frozenset([1]),
    "Slice": frozenset([1, 2, 3, 4]),
    "Tile": frozenset([1]),
}


def evaluate(
    symbols: Symbols, operator: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any]
) -> Array | None:
    """What a node computes from known sizes; None where that can't be said.

    Args:
        inputs: known contents of its inputs (of Shape and Size: the shape of the input).
    """
    if operator not in _OPERATORS:
        return None
    try:
        result = np.asarray(_OPERATORS[operator](symbols, inputs, attributes), dtype=object)
    except (ValueError, IndexError, TypeError):
        return None  # left to the operator's converter, which refuses with the node's name
    if result.ndim > 1 or result.size > MOST_ELEMENTS:
        return None
    flat = [symbols.simplify(value) for value in result.reshape(-1)]
    return objects(flat, result.shape)


def as_relax(sizes: Array, dtype: str) -> relax.Expr:
    """Known sizes as the importer's converters take them: a constant, a scalar or a shape."""
    if all(isinstance(value, int) for value in sizes.reshape(-1)):
        return relax.const(sizes.astype(dtype), dtype)
    return relax.PrimValue(sizes.item()) if sizes.ndim == 0 else relax.ShapeExpr(sizes.tolist())


def as_tensor(bb: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """What :func:`as_relax` gave as a tensor, for operators that compute with sizes."""
    if not isinstance(value, relax.PrimValue | relax.ShapeExpr):
        return value
    if isinstance(value, relax.PrimValue):
        return bb.emit_te(lambda n: te.compute((), lambda: n, name="size"), value.value, primfunc_name_hint="size")

    def sizes(*extents: tirx.PrimExpr) -> te.Tensor:
        def element(place: tirx.Var) -> tirx.PrimExpr:
            chosen = extents[-1]
            for number in range(len(extents) - 2, -1, -1):
                chosen = tirx.if_then_else(place == number, extents[number], chosen)
            return chosen

        return te.compute((len(extents),), element, name="sizes")

    return bb.emit_te(sizes, *value.values, primfunc_name_hint="sizes")


def constant_sizes(value: relax.Expr | None) -> Array | None:
    """The contents of a small integer constant; None if it isn't one."""
    if not isinstance(value, relax.Constant) or not value.struct_info.dtype.startswith(("int", "uint", "bool")):
        return None
    contents = value.data.numpy()
    return objects(contents.reshape(-1).tolist(), contents.shape) if contents.size <= MOST_ELEMENTS else None


def objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result.reshape(tuple(shape))


def _elementwise(combine: Callable[[Any, Any], Any]) -> Evaluate:
    def evaluate(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
        left, right = np.broadcast_arrays(*map(_given, inputs))
        return objects([combine(a, b) for a, b in zip(left.flat, right.flat, strict=True)], left.shape)

    return evaluate


def _compared(compare: Callable[[Any, Any], Any]) -> Evaluate:
    def evaluate(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
        left, right = np.broadcast_arrays(*map(_given, inputs))
        pairs = zip(left.flat, right.flat, strict=True)
        return objects([symbols.decide(compare(a, b)) for a, b in pairs], left.shape)

    return evaluate


def _equal(a: Any, b: Any) -> Any:
    return tirx.EQ(expression(a), expression(b))


def _quotient(a: Any, b: Any) -> Any:
    """Division of sizes, which aren't negative; constants are divided as ONNX does, towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        return int(a / b) if b else a // b
    return tirx.floordiv(expression(a), expression(b))


def _minimum(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.Min(expression(a), expression(b))


def _maximum(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.Max(expression(a), expression(b))


def _shape(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return _given(inputs[0])[slice(attributes.get("start"), attributes.get("end"))]


def _product(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    total = 1
    for value in _given(inputs[0]).flat:
        total = total * value
    return objects([total], ())


def _gather(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return _given(inputs[0])[_given(inputs[1]).astype(np.int64)]


def _slice(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    starts, ends, *rest = (_given(i).astype(np.int64) for i in inputs[1:] if i is not None)
    step = rest[1].item() if len(rest) > 1 else 1
    return _given(inputs[0])[starts.item() : ends.item() : step]


def _concat(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return np.concatenate([_given(i) for i in inputs])


def _reshape(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return _given(inputs[0]).reshape(_given(inputs[1]).astype(np.int64))


def _unsqueeze(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return np.expand_dims(_given(inputs[0]), tuple(_given(inputs[1]).astype(np.int64).reshape(-1)))


def _squeeze(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    axes = inputs[1] if len(inputs) > 1 else None
    return np.squeeze(_given(inputs[0]), None if axes is None else tuple(axes.astype(np.int64).reshape(-1)))


def _expand(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    data, shape = _given(inputs[0]), tuple(_given(inputs[1]).astype(np.int64))
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, shape))


def _filled(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    from onnx import numpy_helper

    value = attributes.get("value")
    filler = 0 if value is None else numpy_helper.to_array(value).item()
    if not isinstance(filler, int):
        raise ValueError("not a size")
    shape = tuple(_given(inputs[0]).astype(np.int64))
    return np.full(shape, filler, dtype=object)


def _where(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    condition, yes, no = np.broadcast_arrays(*map(_given, inputs))
    triples = zip(condition.flat, yes.flat, no.flat, strict=True)
    return objects([a if symbols.decide(c) else b for c, a, b in triples], condition.shape)


def _same(symbols: Symbols, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    return _given(inputs[0])


def _given(value: Array | None) -> Array:
    if value is None:
        raise ValueError("an input is unknown")
    return value


_OPERATORS: dict[str, Evaluate] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Cast": _same,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _elementwise(_quotient),
    "Equal": _compared(_equal),
    "Expand": _expand,
    "Gather": _gather,
    "Greater": _compared(lambda a, b: a > b),
    "Identity": _same,
    "Less": _compared(lambda a, b: a < b),
    "Max": _elementwise(_maximum),
    "Min": _elementwise(_minimum),
    "Mul": _elementwise(lambda a, b: a * b),
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _product,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(lambda a, b: a - b),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
