"""GroupQueryAttention of the domain com.microsoft, by its definition."""

from __future__ import annotations

import math
from dataclasses import dataclass

from redfuser.frontend.normalising.contributed.heads import counted, extent, merge_heads, scores_of, split_heads
from redfuser.frontend.normalising.contributed.rotary import cache_width, head_angles, rotated
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.own import APPEND, DOMAIN


@dataclass(frozen=True)
class _Sequence:
    """Where the new keys belong.

    Args:
        new: how many there are in each row, as a scalar.
        places: positions of the new keys, (1 or B, S).
        before: how many keys are there already in each row, (B, 1); empty if there are none: a prompt.
        total: keys of the longest row, as a scalar; empty in a prompt, where they are the new ones.
        room: keys that the present state has room for, as a scalar; empty for as many as there are.
        fits: whether these are as many as ``total``.
    """

    new: str
    places: str
    before: str = ""
    total: str = ""
    room: str = ""
    fits: bool = True


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
    """A past of fixed size is a buffer with room for the new keys; one of open size, all keys there were."""
    new = extent(write, queries, 2)
    past = write.shape(3)[2] if write.input(3) else 0
    prompt = write.add("Unsqueeze", counted(write, new), write.integers(0))
    if past == 0:
        return _Sequence(new, prompt)
    given, count = write.value(6), write.shape(0)[1]
    longest = None if given is None else int(given.reshape(-1)[0])
    total = write.add("Squeeze", _as_int64(write, write.input(6))) if longest is None else ""
    total = total or write.add("Constant", value_int=longest)
    fits = past is None or (longest is not None and longest >= past)
    room = total if fits else write.add("Constant", value_int=past)
    if count is not None and count == longest:
        return _Sequence(new, prompt, total=total, room=room, fits=fits)
    before, one = _last(write), write.add("Constant", value_int=1)
    if count != 1:
        before = write.add("Sub", before, write.add("Sub", new, one))
        before = write.add("Max", before, write.add("Constant", value_int=0))  # in a prompt, of a shorter row
    furthest = write.add("Range", write.add("Sub", total, new), total, one)
    furthest = write.add("Unsqueeze", furthest, write.integers(0))
    # No row is longer than the longest; said again, since of that one the sizes tell how far it goes.
    places = write.add("Min", write.add("Add", before, prompt), furthest)
    return _Sequence(new, places, before, total, room, fits)


def _last(write: Definition) -> str:
    """The place of the last key of each row, (B, 1)."""
    return write.add("Reshape", _as_int64(write, write.input(5)), write.integers(-1, 1))


def _as_int64(write: Definition, value: str) -> str:
    from onnx import TensorProto

    return write.add("Cast", value, to=int(TensorProto.INT64))


def _turned(write: Definition, sequence: _Sequence, queries: str, keys: str, size: int) -> list[str]:
    """Queries and keys, each turned by the angles of its position."""
    places = _angles_at(write, sequence)
    half, angles = cache_width(write, 7), head_angles(write, 7, places)
    interleaved = bool(write.attribute("rotary_interleaved", 0))
    return [rotated(write, value, angles, half, size, interleaved) for value in (queries, keys)]


def _angles_at(write: Definition, sequence: _Sequence) -> str:
    """Which angles the new keys turn by, (1 or B, S). Of positions given for a prompt, only the very first counts."""
    given = write.input(9)
    if not given:
        return sequence.places
    first = write.add("Slice", given, *(write.integers(*n) for n in ((0, 0), (1, 1), (0, 1))))
    counted_on = write.add("Add", first, write.add("Unsqueeze", counted(write, sequence.new), write.integers(0)))
    if not sequence.before:
        return counted_on
    return write.add("Where", write.add("Equal", sequence.total, sequence.new), counted_on, given)


def _present(write: Definition, sequence: _Sequence, place: int, new: str) -> str:
    """Keys or values with the past's: what attention reads; the output gets them with 0 behind."""
    out = write.output(1 + place)
    if not sequence.room:
        return write.add("Identity", new, out=out) if out else new
    if not sequence.before:
        if out:
            _filled(write, new, sequence.room, out)
        return new
    inputs = [write.input(3 + place), new, sequence.before, sequence.room]
    present = write.add(APPEND, *inputs, out=out, domain=DOMAIN)
    return present if sequence.fits else _up_to(write, present, sequence.total)


def _filled(write: Definition, value: str, room: str, out: str) -> None:
    """A value with 0 behind it, up to so many rows."""
    missing = write.add("Sub", _listed(write, room), write.add("Shape", value, start=2, end=3))
    pads = write.add("Concat", write.integers(0, 0, 0, 0, 0, 0), missing, write.integers(0), axis=0)
    write.add("Pad", value, pads, out=out)


def _listed(write: Definition, scalar: str) -> str:
    return write.add("Unsqueeze", scalar, write.integers(0))


def _up_to(write: Definition, value: str, length: str) -> str:
    """The first rows of each head."""
    return write.add("Slice", value, write.integers(0), _listed(write, length), write.integers(2))


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
    places = write.add("Unsqueeze", sequence.places, write.integers(1, 3))
    seen = write.add("LessOrEqual", at, places)  # (1 or B, 1, S, T)
    if window > 0:
        first = write.add("Sub", places, write.add("Constant", value_int=window))
        seen = write.add("And", seen, write.add("Greater", at, first))
    return _where(write, seen, scores)


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
