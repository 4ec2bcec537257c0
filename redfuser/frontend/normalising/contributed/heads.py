"""What the attentions of the domain com.microsoft share: heads, scores, and which keys a query sees."""

from __future__ import annotations

from redfuser.frontend.normalising.definition import Definition

#: What hides a key that isn't there, where the node doesn't say.
HIDDEN = -10000.0

#: The lowest float32.
_LOWEST = -3.4028234663852886e38


def split_heads(write: Definition, value: str, heads: int) -> str:
    """(B, S, heads·D) as (B, heads, S, D)."""
    return write.add("Transpose", write.add("Reshape", value, write.integers(0, 0, heads, -1)), perm=[0, 2, 1, 3])


def merge_heads(write: Definition, context: str, out: str) -> None:
    """(B, heads, S, D) as (B, S, heads·D)."""
    flat = write.add("Transpose", context, perm=[0, 2, 1, 3])
    write.add("Reshape", flat, write.integers(0, 0, -1), out=out)


def scores_of(write: Definition, queries: str, keys: str) -> str:
    """``q·kᵀ·scale``, (B, heads, S, T); where the node gives no scale, it is the inverse root of the head size."""
    product = write.add("MatMul", queries, write.add("Transpose", keys, perm=[0, 1, 3, 2]))
    kind = write.element_type(0)
    given = write.attribute("scale", 0.0)
    if given:
        return write.add("Mul", product, write.number(given, kind))
    size = write.add("Cast", write.add("Shape", queries, start=3, end=4), to=kind)
    return write.add("Mul", product, write.add("Reciprocal", write.add("Sqrt", size)))


def padding(write: Definition, place: int, keys: str) -> str:
    """What a mask adds to the scores; empty without one.

    Args:
        place: of the mask among the inputs: the length of each row of keys (B), or what is above 0 where a key is
            there, (B, T) or (B, S, T).

    Raises:
        UnsupportedOperatorError: it has another form.
    """
    mask = write.input(place)
    hidden = write.attribute("mask_filter_value", HIDDEN)
    if not mask:
        return ""
    shape, batch = write.shape(place), write.shape(0)[0]
    if len(shape) not in (1, 2, 3) or (None not in (shape[0], batch) and shape[0] != batch):
        write.refuse(
            f"a mask of shape {[size or '?' for size in shape]}",
            "give lengths (batch), or ones and zeros (batch, keys) or (batch, queries, keys)",
        )
    if len(shape) == 1:
        seen = write.add("Less", counted(write, extent(write, keys, 2)), _cast(write, mask, write.integers(1)))
    else:
        seen = write.add("Greater", mask, write.number(0, write.element_type(place)))
    axes = (1,) if len(shape) == 3 else (1, 2)
    zero, hides = (write.number(value, write.element_type(0)) for value in (0.0, hidden))
    return write.add("Unsqueeze", write.add("Where", seen, zero, hides), write.integers(*axes))


def _cast(write: Definition, counts: str, axes: str) -> str:
    """Counts as int64, with one more axis."""
    from onnx import TensorProto

    return write.add("Unsqueeze", write.add("Cast", counts, to=int(TensorProto.INT64)), axes)


def hide_later(write: Definition, scores: str, queries: str, keys: str) -> str:
    """The scores, and the lowest number where a key comes after its query; the last query is at the last key."""
    rows, columns = (extent(write, value, 2) for value in (queries, keys))
    places = write.add("Range", write.add("Sub", columns, rows), columns, write.add("Constant", value_int=1))
    later = write.add("Less", write.add("Unsqueeze", places, write.integers(1)), counted(write, columns))
    return write.add("Where", later, write.number(_lowest(write), write.element_type(0)), scores)


def _lowest(write: Definition) -> float:
    from onnx import TensorProto

    halves = {TensorProto.FLOAT16: -65504.0, TensorProto.BFLOAT16: -3.3895313892515355e38}
    return halves.get(write.element_type(0), _LOWEST)


def counted(write: Definition, count: str) -> str:
    """0, 1, … below a scalar."""
    zero, one = (write.add("Constant", value_int=value) for value in (0, 1))
    return write.add("Range", zero, count, one)


def extent(write: Definition, value: str, axis: int) -> str:
    """One extent of a value, as a scalar."""
    return write.add("Squeeze", write.add("Shape", value, start=axis, end=axis + 1), write.integers(0))
