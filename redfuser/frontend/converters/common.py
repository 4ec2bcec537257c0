"""What converters share.

A converter takes ``(bb, inputs, attributes)`` and returns one expression, or a sequence of them for an
operator with several outputs. Missing optional inputs are None. It refuses a use it doesn't cover with
ValueError or NotImplementedError; the importer adds the node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.relax import op as R

from redfuser.frontend.element_types import element_type
from redfuser.frontend.symbols import Symbols

Inputs = Sequence[relax.Expr | None]
Attributes = Mapping[str, Any]
Converter = Callable[[relax.BlockBuilder, Inputs, Attributes], relax.Expr | Sequence[relax.Expr]]

HALF = frozenset({"float16", "bfloat16"})


def shape_of(value: relax.Expr) -> tuple[int, ...]:
    """Static extents of an expression.

    Raises:
        ValueError: one of them is known on the call only.
    """
    return static_extents(extents_of(value))


def static_extents(extents: Sequence[Any]) -> tuple[int, ...]:
    """Extents that must be static.

    Raises:
        ValueError: one of them is known on the call only.
    """
    symbolic = [extent for extent in extents if not isinstance(extent, int)]
    if symbolic:
        raise ValueError(f"the symbolic dimension {symbolic[0]} must be fixed here")
    return tuple(extents)


def extents_of(value: relax.Expr) -> tuple[Any, ...]:
    """Extents of an expression: integers, and ``tirx`` expressions where they are known on the call only."""
    return tuple(int(n) if isinstance(n, tirx.IntImm) else n for n in value.struct_info.shape)


def symbols_of(attributes: Attributes) -> Symbols:
    """The symbolic dimensions of the model."""
    symbols: Symbols = attributes["tvm_custom"]["symbols"]
    return symbols


def rank_of(value: relax.Expr) -> int:
    """Number of dimensions of an expression."""
    return len(value.struct_info.shape)


def dtype_of(value: relax.Expr) -> str:
    """Element type of an expression."""
    return str(value.struct_info.dtype)


def optional(inputs: Inputs, place: int) -> relax.Expr | None:
    """An input that may be missing."""
    return inputs[place] if place < len(inputs) else None


def constant(value: relax.Expr | None, what: str) -> np.ndarray:
    """The value of a constant input.

    Raises:
        ValueError: it is only known at run time.
    """
    if not isinstance(value, relax.Constant):
        raise ValueError(f"{what} must be a constant")
    return value.data.numpy()


def output_count(attributes: Attributes) -> int:
    """How many outputs the node names."""
    return int(attributes["tvm_custom"]["num_outputs"])


def output_type(attributes: Attributes) -> str:
    """NumPy's name of the ONNX element type of the node's first output, ``int4`` and the like included."""
    return element_type(attributes["tvm_custom"]["output_types"][0])


def cast(bb: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    """The expression in another element type; itself if it has that already."""
    return value if dtype_of(value) == dtype else bb.emit(R.astype(value, dtype))


def matmul(bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """Matrix product; half precision accumulates in float32 and is rounded once.

    TVM accumulates in the type of the operands; every runtime we are compared with accumulates wide.
    """
    dtype = dtype_of(a)
    if dtype not in HALF:
        return bb.emit(R.matmul(a, b))
    return bb.emit(R.astype(bb.emit(R.matmul(a, b, out_dtype="float32")), dtype))


def widened(convert: Converter, types: Collection[str] = HALF) -> Converter:
    """Compute an operator on inputs of these types in float32 and round its results once."""

    def wide(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        narrow = next((dtype for dtype in map(_dtype_or_none, inputs) if dtype in types), None)
        if narrow is None:
            return convert(bb, inputs, attributes)
        cast = [bb.emit(R.astype(value, "float32")) if _dtype_or_none(value) == narrow else value for value in inputs]
        result = convert(bb, cast, attributes)
        if isinstance(result, relax.Tuple):
            result = list(result)
        if isinstance(result, Sequence):
            return [_narrowed(bb, value, narrow) for value in result]
        return _narrowed(bb, result, narrow)

    return wide


def _dtype_or_none(value: relax.Expr | None) -> str | None:
    info = getattr(value, "struct_info", None)
    return str(info.dtype) if isinstance(info, relax.TensorStructInfo) else None


def _narrowed(bb: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    value = bb.normalize(value)
    return R.astype(value, dtype) if dtype_of(value) == "float32" else value
