"""Blocks of a transformer with weights in bytes, as ``onnxruntime.quantization.quantize_dynamic`` writes them."""

from __future__ import annotations

from redfuser.frontend.normalising.contributed.attention import part_of, split_projected, write_present
from redfuser.frontend.normalising.contributed.norms import EPSILON, count_words
from redfuser.frontend.normalising.contributed.quantised import integer_product
from redfuser.frontend.normalising.definition import Definition

#: What an attention is told beside its operands; the rest is the projection's.
_OWN = ("mask_filter_value", "num_heads", "scale", "unidirectional")


def define_attention(write: Definition) -> None:
    """Attention whose projection is a product of bytes; what follows it is MultiHeadAttention.

    Inputs: input (B, S, I) and weights (I, 3·heads·D) in bytes, bias, scale of the input, of the weights (one, or one
    for each column), mask_index as of Attention, zero points of both alike, past (2, B, heads, P, D).

    Raises:
        UnsupportedOperatorError: see Attention and MultiHeadAttention; or several scales of the input.
    """
    for place in (3, 6):
        if write.input(place) and write.shape(place) not in ([], [1]):
            write.refuse("several scales or zero points of the input", "quantise it as a whole")
    zeros, scales = (write.input(6), write.input(7)), (write.input(3), write.input(4))
    data, kind = (write.input(0), write.input(1)), write.element_type(3)
    operands = split_projected(write, integer_product(write, data, zeros, scales, write.input(2), kind))
    past = [part_of(write, write.input(8), place) if write.input(8) else "" for place in (0, 1)]
    own = {name: value for name in _OWN if (value := write.attribute(name, None)) is not None}
    name = write.name_for("MultiHeadAttention")
    results = [write.output(0), *([f"{name}_keys", f"{name}_values"] if write.output(1) else [])]
    inputs = [*operands, "", write.input(5), "", *past]
    write.add_many("MultiHeadAttention", inputs, results, domain=write.node.domain, **own)
    if write.output(1):
        write_present(write, *results[1:])


def define_embed_layer_norm(write: Definition) -> None:
    """EmbedLayerNormalization of tables, scale and shift in bytes; outputs: it, words in each row.

    Inputs: ids and segments (B, S); tables of words, positions and segments, gamma, beta; mask (B, S); the scales of
    the five, then their zero points.
    """
    ids, segments = write.input(0), write.input(1)
    length = write.add("Shape", ids, start=1, end=2)
    words = write.add("Gather", write.input(2), ids)
    positions = write.add("Slice", write.input(3), write.integers(0), length, write.integers(0))
    kinds = _real(write, write.add("Gather", write.input(4), segments), 2) if segments else ""
    total = write.total(_real(write, words, 0), _real(write, positions, 1), kinds)
    scale, shift = (_real(write, write.input(5 + place), 3 + place) for place in (0, 1))
    epsilon = write.attribute("epsilon", EPSILON)
    write.add("LayerNormalization", total, scale, shift, out=write.output(0), axis=-1, epsilon=epsilon)
    if write.output(1):
        count_words(write, ids, write.input(7))


def _real(write: Definition, value: str, part: int) -> str:
    """What bytes stand for, with the scale and zero point of the table, gamma or beta that they are of."""
    scale, zero = 8 + part, 13 + part
    if any(write.input(place) and write.shape(place) not in ([], [1]) for place in (scale, zero)):
        write.refuse("several scales or zero points of one table", "quantise it as a whole")
    return write.add("DequantizeLinear", *filter(None, (value, write.input(scale), write.input(zero))))
