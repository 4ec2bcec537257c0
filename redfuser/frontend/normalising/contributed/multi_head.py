"""MultiHeadAttention of the domain com.microsoft, by its definition."""

from __future__ import annotations

from math import prod

from redfuser.frontend.normalising.contributed.heads import hide_later, merge_heads, padding, scores_of, split_heads
from redfuser.frontend.normalising.definition import END, Definition

_PAIRED = "give both past_key and past_value, or none"


def define_multi_head_attention(write: Definition) -> None:
    """``softmax(q·kᵀ·scale + mask + bias)·v``; outputs: it, present keys and values.

    Inputs: query (B, S, heads·D), or with keys and values as (B, S, heads, 3, D); key (B, L, heads·D), of a cross
    attention (B, heads, L, D), or with the values (B, L, heads, 2, D); value alike; bias of the three projections;
    key_padding_mask (B), (B, T) or (B, S, T); attention_bias (1 or B, 1 or heads, S, T); past keys and values
    (B, heads, P, D), with T = P + L.

    Raises:
        UnsupportedOperatorError: a mask of another form, a buffer shared with the past, beams, or the scores as output.
    """
    for place, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if write.input(place):
            write.refuse(name)
    if write.output(3):
        write.refuse("its output qk")
    q, k, v = _operands(write, write.attribute("num_heads", 1))
    past = write.input(6), write.input(7)
    if any(past):
        if not all(past):
            write.refuse("one past state", _PAIRED)
        k, v = (write.add("Concat", old, new, axis=2) for old, new in zip(past, (k, v), strict=True))
    for place, value in ((1, k), (2, v)):
        if write.output(place):
            write.add("Identity", value, out=write.output(place))
    _require_whole_mask(write)
    scores = write.total(scores_of(write, q, k), padding(write, 4, k), write.input(5))
    if write.attribute("unidirectional", 0):
        _require_self_attention(write)
        scores = hide_later(write, scores, q, k)
    merge_heads(write, write.add("MatMul", write.add("Softmax", scores, axis=-1), v), write.output(0))


def _operands(write: Definition, heads: int) -> list[str]:
    """Queries, keys and values with their bias, each (B, heads, S or L, D)."""
    rank = len(write.shape(0))
    if rank == 5:
        return [_unpacked(write, write.input(0), place, _bias(write, place)) for place in range(3)]
    keys = len(write.shape(1)) if write.input(1) else 0
    queries = split_heads(write, write.total(write.input(0), _bias(write, 0)), heads)
    if keys == 5:
        return [queries, *(_unpacked(write, write.input(1), place, "") for place in range(2))]
    if keys == 4 and write.input(2):
        return [queries, write.input(1), write.input(2)]  # of another sequence: no bias
    if keys != 3 or not write.input(2):
        write.refuse(f"queries of rank {rank} and {f'keys of rank {keys}' if keys else 'no keys'}")
    others = (write.total(write.input(place), _bias(write, place)) for place in (1, 2))
    return [queries, *(split_heads(write, value, heads) for value in others)]


def _unpacked(write: Definition, packed: str, place: int, bias: str) -> str:
    """One of the operands of (B, S, heads, 2 or 3, D)."""
    part = write.add("Gather", packed, write.add("Constant", value_int=place), axis=3)
    if bias:
        part = write.add("Add", part, write.add("Reshape", bias, write.add("Shape", part, start=2)))
    return write.add("Transpose", part, perm=[0, 2, 1, 3])


def _bias(write: Definition, place: int) -> str:
    """The part of the bias for queries, keys or values; empty without one."""
    if not write.input(3):
        return ""
    sizes = write.shape(0)
    given = sizes[2], *sizes[4:]  # the width, or heads and their size
    known = [size for size in given if size is not None]
    if len(known) < len(given):
        write.refuse("a bias of queries of unknown width", "fix the last dimension of the queries with --dim")
    width = prod(known)
    bounds = place * width, (place + 1) * width if place < 2 else END
    return write.add("Slice", write.input(3), *(write.integers(bound) for bound in bounds), write.integers(0))


def _require_whole_mask(write: Definition) -> None:
    """A mask has an entry for each key, the past's too."""
    if not write.input(4) or len(write.shape(4)) == 1:
        return
    lengths = [write.shape(1 if write.input(1) else 0)[_length_axis(write)], write.shape(6)[2] if write.input(6) else 0]
    given = write.shape(4)[-1]
    if None not in (given, *lengths) and given != sum(length or 0 for length in lengths):
        write.refuse(f"a mask of {given} keys", "give it one entry for each key, those of the past first")


def _require_self_attention(write: Definition) -> None:
    if not write.input(1):
        return
    queries, keys = write.shape(0)[1], write.shape(1)[_length_axis(write)]
    if None not in (queries, keys) and queries != keys:
        write.refuse(f"unidirectional and {keys} keys for {queries} queries", "give its mask as attention_bias")


def _length_axis(write: Definition) -> int:
    """Where the keys have their length."""
    return 2 if write.input(1) and len(write.shape(1)) == 4 else 1
