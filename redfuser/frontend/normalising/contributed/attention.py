"""Attention of the domain com.microsoft: projection, heads and masks in one operator, by its definition."""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.frontend.normalising.contributed.heads import hide_later, merge_heads, padding, scores_of, split_heads
from redfuser.frontend.normalising.definition import Definition


def define_attention(write: Definition) -> None:
    """``softmax(q·kᵀ·scale + mask + bias)·v`` of the projected input; outputs: it, and the keys and values.

    Inputs: input (B, S, I), weights (I, Hq + Hk + Hv), bias, mask_index (B), (B, T) or (B, S, T), past
    (2, B, heads, P, D), attention_bias (1 or B, 1 or heads, S, T), with T = P + S.

    Raises:
        UnsupportedOperatorError: a mask of another form, or rotary embedding, or a buffer shared with the past.
    """
    if write.input(6):
        write.refuse("past_sequence_length")
    q, k, v = _projected(write, write.attribute("num_heads", 1))
    past = write.input(4)
    if past:
        k, v = (write.add("Concat", part_of(write, past, place), new, axis=2) for place, new in enumerate((k, v)))
    if write.output(1):
        write_present(write, k, v)
    scores = write.total(scores_of(write, q, k), padding(write, 3, k), write.input(5))
    if write.attribute("unidirectional", 0):
        scores = hide_later(write, scores, q, k)
    merge_heads(write, write.add("MatMul", write.add("Softmax", scores, axis=-1), v), write.output(0))


def _projected(write: Definition, heads: int) -> list[str]:
    """Queries, keys and values, each (B, heads, S, D)."""
    projected = write.total(write.add("MatMul", write.input(0), write.input(1)), write.input(2))
    parts = split_projected(write, projected, write.attribute("qkv_hidden_sizes", ()))
    return [split_heads(write, part, heads) for part in parts]


def split_projected(write: Definition, projected: str, sizes: Sequence[int] = ()) -> Sequence[str]:
    """Queries, keys and values, each (B, S, heads·D); of equal widths unless sizes are given."""
    if not sizes:
        width = write.shape(1)[-1]
        if width is None:
            write.refuse("weights of unknown width")
        sizes = [width // 3] * 3
    places = [write.name_for("Split") + f"_{part}" for part in "qkv"]
    return write.add_many("Split", [projected, write.integers(*sizes)], places, axis=-1)


def part_of(write: Definition, past: str, place: int) -> str:
    """The keys or the values of a past state."""
    start, stop, axis = (write.integers(number) for number in (place, place + 1, 0))
    return write.add("Squeeze", write.add("Slice", past, start, stop, axis), axis)


def write_present(write: Definition, keys: str, values: str) -> None:
    """The second output: keys and values, (2, B, heads, T, D)."""
    pair = [write.add("Unsqueeze", value, write.integers(0)) for value in (keys, values)]
    write.add("Concat", *pair, out=write.output(1), axis=0)
