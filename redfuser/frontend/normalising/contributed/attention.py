"""Attention of the domain com.microsoft: projection, heads and masks in one operator, by its definition."""

from __future__ import annotations

from redfuser.frontend.normalising.definition import Definition

#: What hides a key where the node doesn't say.
HIDDEN = -10000.0


def define_attention(write: Definition) -> None:
    """``softmax(q·kᵀ·scale + mask + bias)·v`` of the projected input; outputs: it, and the keys and values.

    Inputs: input (B, S, I), weights (I, Hq + Hk + Hv), bias, mask_index (B, T) or (B, S, T), past (2, B, heads, P, D),
    attention_bias (1 or B, 1 or heads, S, T), with T = P + S.

    Raises:
        UnsupportedOperatorError: a mask of another rank, or rotary embedding, or a buffer shared with the past.
    """
    if write.input(6):
        write.refuse("past_sequence_length")
    heads = write.attribute("num_heads", 1)
    q, k, v = _projected(write, heads)
    past = write.input(4)
    if past:
        k, v = (write.add("Concat", _part(write, past, place), new, axis=2) for place, new in enumerate((k, v)))
    if write.output(1):
        pair = [write.add("Unsqueeze", value, write.integers(0)) for value in (k, v)]
        write.add("Concat", *pair, out=write.output(1), axis=0)
    scores = write.add("MatMul", q, write.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = write.add("Mul", scores, _scale(write, q))
    hidden = write.attribute("mask_filter_value", HIDDEN)
    scores = write.total(scores, _padding(write, hidden), _future(write, q, k, hidden), write.input(5))
    context = write.add("MatMul", write.add("Softmax", scores, axis=-1), v)
    flat = write.add("Transpose", context, perm=[0, 2, 1, 3])
    write.add("Reshape", flat, write.integers(0, 0, -1), out=write.output(0))


def _projected(write: Definition, heads: int) -> list[str]:
    """Queries, keys and values, each (B, heads, S, D)."""
    projected = write.total(write.add("MatMul", write.input(0), write.input(1)), write.input(2))
    sizes = list(write.attribute("qkv_hidden_sizes", ()))
    if not sizes:
        width = write.shape(1)[-1]
        if width is None:
            write.refuse("weights of unknown width")
        sizes = [(width or 0) // 3] * 3
    places = [write.name_for("Split") + f"_{part}" for part in "qkv"]
    parts = write.add_many("Split", [projected, write.integers(*sizes)], places, axis=-1)
    shape = write.integers(0, 0, heads, -1)
    return [write.add("Transpose", write.add("Reshape", part, shape), perm=[0, 2, 1, 3]) for part in parts]


def _part(write: Definition, past: str, place: int) -> str:
    """The keys or the values of a past state."""
    return write.add("Squeeze", _from_to(write, past, place, place + 1), write.integers(0))


def _from_to(write: Definition, value: str, start: int, stop: int) -> str:
    return write.add("Slice", value, write.integers(start), write.integers(stop), write.integers(0))


def _scale(write: Definition, queries: str) -> str:
    """The number that scores are multiplied with: given, or the inverse root of the head size."""
    kind = write.element_type(0)
    given = write.attribute("scale", 0.0)
    if given:
        return write.number(given, kind)
    size = write.add("Cast", write.add("Shape", queries, start=3, end=4), to=kind)
    return write.add("Reciprocal", write.add("Sqrt", size))


def _padding(write: Definition, hidden: float) -> str:
    """What a mask adds, (B, 1, 1 or S, T); empty without one."""
    mask = write.input(3)
    if not mask:
        return ""
    rank = len(write.shape(3))
    if rank not in (2, 3):
        write.refuse(f"a mask_index of rank {rank}")
    seen = write.add("Greater", mask, write.number(0, write.element_type(3)))
    zero, hides = (write.number(value, write.element_type(0)) for value in (0.0, hidden))
    return write.add(
        "Unsqueeze", write.add("Where", seen, zero, hides), write.integers(*((1, 2) if rank == 2 else (1,)))
    )


def _future(write: Definition, queries: str, keys: str, hidden: float) -> str:
    """What hides later keys from a query, (S, T); empty where every query sees all."""
    if not write.attribute("unidirectional", 0):
        return ""
    rows, columns = (_extent(write, value) for value in (queries, keys))
    zero, one = (write.add("Constant", value_int=value) for value in (0, 1))
    places = write.add("Range", write.add("Sub", columns, rows), columns, one)
    later = write.add("Less", write.add("Unsqueeze", places, write.integers(1)), write.add("Range", zero, columns, one))
    kind = write.element_type(0)
    return write.add("Where", later, write.number(hidden, kind), write.number(0.0, kind))


def _extent(write: Definition, value: str) -> str:
    """How many rows heads have, as a scalar."""
    return write.add("Squeeze", write.add("Shape", value, start=2, end=3), write.integers(0))
