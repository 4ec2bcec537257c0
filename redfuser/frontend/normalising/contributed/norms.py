"""Normalisations of the domain com.microsoft, with what is added before them."""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.frontend.normalising.definition import Definition, Widened

#: Of normalisations with a skip connection that don't give one.
EPSILON = 1e-12

#: Of other normalisations.
SIMPLIFIED_EPSILON = 1e-5


def define_skip_layer_norm(write: Definition) -> None:
    """LayerNormalization of input + skip + bias; outputs: it, mean, inverse deviation, the sum."""
    total = write.total(write.input(0), write.input(1), write.input(4), out=write.output(3))
    _layer_norm(write, total, write.input(2), write.input(3), [write.output(place) for place in range(3)])


def _layer_norm(write: Definition, value: str, scale: str, shift: str, outputs: Sequence[str]) -> None:
    """Half precision in float32, rounded once; the statistics stay float32."""
    wide = Widened(write)
    result, *statistics = outputs
    inputs = [wide.cast(value), wide.cast(scale), *([wide.cast(shift)] if shift else [])]
    epsilon = write.attribute("epsilon", EPSILON)
    names = [wide.place(result), *statistics]
    while len(names) > 1 and not names[-1]:
        names.pop()
    write.add_many("LayerNormalization", inputs, names, axis=-1, epsilon=epsilon)
    wide.round(names[0], result)


def define_layer_norm(write: Definition) -> None:
    """ONNX's own, which came in operator set 17 and meant the same before."""
    own = {"axis": write.attribute("axis", -1), "epsilon": write.attribute("epsilon", SIMPLIFIED_EPSILON)}
    write.attribute("stash_type", 1)  # statistics are float32 at least
    inputs, outputs = (list(filter(None, names)) for names in (write.node.input, write.node.output))
    write.add_many("LayerNormalization", inputs, outputs, **own)


def define_skip_rms_norm(write: Definition) -> None:
    """Input + skip + bias, divided by the root of its mean square; outputs as of SkipLayerNormalization, no mean."""
    if write.output(1):
        write.refuse("its output mean")
    total = write.total(write.input(0), write.input(1), write.input(3), out=write.output(3))
    _rms_norm(write, total, write.input(2), EPSILON, write.output(2))


def define_rms_norm(write: Definition) -> None:
    """The input divided by the root of its mean square along the last axis; outputs: it, the inverse root."""
    rank = len(write.shape(0))
    axis = write.attribute("axis", -1)
    if axis not in (-1, rank - 1):
        write.refuse(f"axis {axis} of {rank}", "only the last axis is normalised: flatten the axes into one")
    write.attribute("stash_type", 1)  # statistics are float32 at least
    _rms_norm(write, write.input(0), write.input(1), SIMPLIFIED_EPSILON, write.output(1))


def _rms_norm(write: Definition, value: str, scale: str, epsilon: float, inverse: str) -> None:
    """Half precision in float32, rounded once; the inverse root stays float32."""
    wide = Widened(write)
    x = wide.cast(value)
    square = write.add(
        "Add", write.mean(write.add("Mul", x, x)), write.number(write.attribute("epsilon", epsilon), wide.kind)
    )
    root = write.add("Sqrt", square)
    if inverse:
        write.add("Reciprocal", root, out=inverse)
    scaled = wide.place(write.output(0))
    write.add("Mul", write.add("Div", x, root), wide.cast(scale), out=scaled)
    wide.round(scaled, write.output(0))


def define_embed_layer_norm(write: Definition) -> None:
    """The sum of word, position and segment embeddings, normalised; outputs: it, words in each row, the sum."""
    ids, segments, mask = write.input(0), write.input(1), write.input(7)
    positions = write.input(8)
    if positions:
        places = write.add("Gather", write.input(3), positions)
    else:
        length = write.add("Shape", ids, start=1, end=2)
        places = write.add("Slice", write.input(3), write.integers(0), length, write.integers(0))
    words = write.add("Gather", write.input(2), ids)
    kinds = write.add("Gather", write.input(4), segments) if segments else ""
    total = write.total(words, places, kinds, out=write.output(2))
    write.attribute("mask_index_type", 0)  # what inference makes of the second output: said by its being there
    if write.output(1):
        _word_counts(write, ids, mask)
    _layer_norm(write, total, write.input(5), write.input(6), [write.output(0)])


def _word_counts(write: Definition, ids: str, mask: str) -> None:
    from onnx import TensorProto

    if mask:
        counted = write.add("Equal", mask, write.number(1, write.element_type(7)))
        ones = write.add("Cast", counted, to=int(TensorProto.INT32))
        write.add("ReduceSum", ones, write.integers(1), out=write.output(1), keepdims=0)
    else:
        zero = write.number(0, int(TensorProto.INT32))
        write.add("Expand", zero, write.add("Shape", ids, start=0, end=1), out=write.output(1))
