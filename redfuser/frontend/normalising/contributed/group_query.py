"""GroupQueryAttention of the domain com.microsoft, by its definition."""

from __future__ import annotations

import math
from dataclasses import dataclass

from redfuser.frontend.normalising.contributed.heads import counted, extent, merge_heads, scores_of, split_heads
from redfuser.frontend.normalising.contributed.rotary import cache_width, head_angles, rotated
from redfuser.frontend.normalising.definition import Definition

_FIX = "fix the sizes with --dim, or the input with --value"


@dataclass(frozen=True)
class _Sequence:
    """Where the new keys belong.

    Args:
        new: how many there are in each row, as a scalar.
        before: how many keys are there already in each row, (B, 1); empty if there are none: a prompt.
        total: keys of the longest row; 0 in a prompt, where they are the new ones.
        capacity: keys that the present state has room for; 0 for as many as there are.
    """

    new: str
    before: str = ""
    total: int = 0
    capacity: int = 0


def define_group_query_attention(write: Definition) -> None:
    """``softmax(q·kᵀ·scale + bias)·v`` with fewer keys than queries, causal; outputs: it, present keys and values.

    Inputs: query (B, S, heads·D), or with keys and values behind it; key and value (B, S, groups·D); past keys and
    values (B, groups, P, D), of which each row has used its first ones; seqlens_k (B): keys of each row, new ones
    included, less one; total_sequence_length: keys of the longest row; cosines and sines of positions; position_ids
    (B, S); attention_bias (1 or B, 1 or heads, S, T); head_sink (heads). A row of a prompt that is shorter than the
    longest has unspecified results behind its end. Behind a row's keys the present state is 0.

    Raises:
        UnsupportedOperatorError: a quantised or windowed cache, norms of queries and keys, the scores as output, or a
            past of sizes that are known only on the call.
    """
    _refuse_the_rest(write)
    heads, groups = write.attribute("num_heads", 1), write.attribute("kv_num_heads", 1)
    size = _head_size(write, heads, groups)
    q, k, v = _operands(write, heads, groups, size)
    sequence = _sequence(write, q)
    if write.attribute("do_rotary", 0):
        q, k = _turned(write, sequence, q, k, size)
    k, v = (_present(write, sequence, place, new) for place, new in enumerate((k, v)))
    if heads != groups:
        k, v = (_repeated(write, value, heads, groups, size) for value in (k, v))
    scores = scores_of(write, q, k)
    cap = write.attribute("softcap", 0.0)
    if cap:
        limit = write.number(cap, write.element_type(0))
        scores = write.add("Mul", write.add("Tanh", write.add("Div", scores, limit)), limit)
    scores = write.total(scores, write.input(10))
    scores = _seen(write, sequence, scores, extent(write, k, 2))
    merge_heads(write, write.add("MatMul", _softmax(write, scores, heads), v), write.output(0))


def _refuse_the_rest(write: Definition) -> None:
    for name in ("k_quant_type", "v_quant_type"):
        if write.attribute(name, b"NONE") not in (b"", b"NONE"):
            write.refuse(name, "export it with a cache in floating point")
    write.attribute("kv_cache_bit_width", 0)  # of a quantised cache
    write.attribute("qk_norm_epsilon", 0.0)  # of the norms below
    for place, name in ((12, "k_scale"), (13, "v_scale"), (14, "q_norm_weight"), (15, "k_norm_weight")):
        if write.input(place):
            write.refuse(name)
    if write.output(3):
        write.refuse("its output output_qk")
    write.attribute("qk_output", 0)  # of that output


def _head_size(write: Definition, heads: int, groups: int) -> int:
    width = write.shape(0)[-1]
    if width is None:
        write.refuse("queries of unknown width", "fix their last dimension with --dim")
    return width // (heads if write.input(1) else heads + 2 * groups)


def _operands(write: Definition, heads: int, groups: int, size: int) -> list[str]:
    """Queries (B, heads, S, D), keys and values (B, groups, S, D)."""
    packed = [write.input(place) for place in range(3)]
    if not packed[1]:
        sizes = [count * size for count in (heads, groups, groups)]
        places = [f"{write.name_for('Split')}_{part}" for part in "qkv"]
        packed = list(write.add_many("Split", [packed[0], write.integers(*sizes)], places, axis=-1))
    elif (lengths := [write.shape(place)[1] for place in (0, 1)])[0] != lengths[1]:
        write.refuse(f"{lengths[1]} new keys for {lengths[0]} queries", "use MultiHeadAttention between sequences")
    return [split_heads(write, part, count) for part, count in zip(packed, (heads, groups, groups), strict=True)]


def _sequence(write: Definition, queries: str) -> _Sequence:
    new = extent(write, queries, 2)
    capacity = write.shape(3)[2] if write.input(3) else 0
    if capacity == 0:
        return _Sequence(new)
    total, count, batch = write.value(6), write.shape(0)[1], write.shape(0)[0]
    if total is None:
        write.refuse("a past, and a total_sequence_length that is known only on the call", _FIX)
    if capacity is None or count is None:
        write.refuse("a past of open size", _FIX)
    longest = int(total.reshape(-1)[0])
    if longest == count:
        return _Sequence(new, total=longest, capacity=max(capacity, longest))
    if count > 1 and batch != 1:
        write.refuse(f"{count} new keys behind a past, in a batch", "compile it for a batch of 1")
    before = write.add("Sub", _last(write), write.add("Constant", value_int=count - 1))
    return _Sequence(new, before, longest, max(capacity, longest))


def _last(write: Definition) -> str:
    """The place of the last key of each row, (B, 1)."""
    from onnx import TensorProto

    places = write.add("Cast", write.input(5), to=int(TensorProto.INT64))
    return write.add("Reshape", places, write.integers(-1, 1))


def _turned(write: Definition, sequence: _Sequence, queries: str, keys: str, size: int) -> list[str]:
    """Queries and keys, each turned by the angles of its position."""
    places = write.input(9)
    if not (places and sequence.before):  # of a prompt, only the first position given counts
        first = write.add("Slice", places, *(write.integers(*n) for n in ((0, 0), (1, 1), (0, 1)))) if places else ""
        new = write.add("Unsqueeze", counted(write, sequence.new), write.integers(0))
        places = write.total(first, sequence.before, new)
    half, angles = cache_width(write, 7), head_angles(write, 7, places)
    interleaved = bool(write.attribute("rotary_interleaved", 0))
    return [rotated(write, value, angles, half, size, interleaved) for value in (queries, keys)]


def _present(write: Definition, sequence: _Sequence, place: int, new: str) -> str:
    """Keys or values with the past's: what attention reads; the output gets them with 0 behind."""
    out = write.output(1 + place)
    if not sequence.capacity:
        return write.add("Identity", new, out=out) if out else new
    if not sequence.before:
        if out:
            _filled(write, new, sequence.capacity, out)
        return new
    past = write.input(3 + place)
    if write.shape(3)[2] != sequence.capacity:
        past = _up_to(write, write.add("Concat", past, new, axis=2), sequence.capacity)
    at = counted(write, write.add("Constant", value_int=sequence.capacity))
    here = write.add("Unsqueeze", write.add("Sub", at, sequence.before), write.integers(1, 3))  # (B, 1, capacity, 1)
    zero, none = write.add("Constant", value_int=0), write.number(0, write.element_type(0))
    inside = write.add("Less", here, sequence.new)
    added = write.add("Where", inside, _spread(write, sequence, new, here), none)
    present = write.add("Where", write.add("Less", here, zero), past, added, out=out)
    return _up_to(write, present, sequence.total) if sequence.total < sequence.capacity else present


def _spread(write: Definition, sequence: _Sequence, new: str, here: str) -> str:
    """The new rows at their places; anything elsewhere. One row is everywhere, several are of a batch of one."""
    if write.shape(0)[1] == 1:
        return new
    last = write.add("Sub", sequence.new, write.add("Constant", value_int=1))
    rows = write.add("Clip", write.add("Reshape", here, write.integers(-1)), write.add("Constant", value_int=0), last)
    return write.add("Gather", new, rows, axis=2)


def _filled(write: Definition, value: str, capacity: int, out: str) -> None:
    """A value with 0 behind it, up to a capacity."""
    missing = write.add("Sub", write.integers(capacity), write.add("Shape", value, start=2, end=3))
    pads = write.add("Concat", write.integers(0, 0, 0, 0, 0, 0), missing, write.integers(0), axis=0)
    write.add("Pad", value, pads, out=out)


def _up_to(write: Definition, value: str, length: int) -> str:
    """The first rows of each head."""
    return write.add("Slice", value, write.integers(0), write.integers(length), write.integers(2))


def _repeated(write: Definition, value: str, heads: int, groups: int, size: int) -> str:
    """Each group once for each of its queries' heads."""
    apart = write.add("Unsqueeze", value, write.integers(2))
    outer, inner = (write.add("Shape", value, start=start, end=start + 2) for start in (0, 2))
    wide = write.add("Expand", apart, write.add("Concat", outer, write.integers(heads // groups), inner, axis=0))
    return write.add("Reshape", wide, write.integers(0, heads, -1, size))


def _seen(write: Definition, sequence: _Sequence, scores: str, keys: str) -> str:
    """The scores, -∞ where a query doesn't see a key."""
    at = counted(write, keys)
    window = write.attribute("local_window_size", -1)
    if not write.attribute("causal", 1):
        if window > 0:
            write.refuse("a window that isn't causal", "give its mask as attention_bias")
        last = write.add("Unsqueeze", _last(write), write.integers(1, 2))
        return _where(write, write.add("LessOrEqual", at, last), scores)
    places = counted(write, sequence.new)
    if sequence.before:
        places = write.add("Add", sequence.before, places)
    places = write.add("Unsqueeze", places, write.integers(-1))  # (S, 1) or (B, S, 1)
    seen = write.add("LessOrEqual", at, places)
    if window > 0:
        first = write.add("Sub", places, write.add("Constant", value_int=window))
        seen = write.add("And", seen, write.add("Greater", at, first))
    return _where(write, write.add("Unsqueeze", seen, write.integers(1)) if sequence.before else seen, scores)


def _where(write: Definition, seen: str, scores: str) -> str:
    return write.add("Where", seen, scores, write.number(-math.inf, write.element_type(0)))


def _softmax(write: Definition, scores: str, heads: int) -> str:
    """Along the keys; with a sink, which takes its share and gives nothing."""
    sink = write.input(11)
    if not sink and not write.attribute("smooth_softmax", 0):
        return write.add("Softmax", scores, axis=-1)
    column = sink or write.number(0, write.element_type(0))
    column = write.add("Reshape", column, write.integers(1, heads if sink else 1, 1, 1))
    shape = write.add("Concat", write.add("Shape", scores, start=0, end=3), write.integers(1), axis=0)
    together = write.add("Concat", scores, write.add("Expand", column, shape), axis=-1)
    return write.add("Slice", write.add("Softmax", together, axis=-1), *(write.integers(n) for n in (0, -1, -1)))
