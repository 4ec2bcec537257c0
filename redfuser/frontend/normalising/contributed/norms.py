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
    """ONNX's own, which came in operator set 17, but for a type of scale and bias that need not be the input's."""
    own = {"axis": write.attribute("axis", -1), "epsilon": write.attribute("epsilon", SIMPLIFIED_EPSILON)}
    write.attribute("stash_type", 1)  # statistics are float32 at least
    inputs, statistics = list(filter(None, write.node.input)), [write.output(1), write.output(2)]
    while statistics and not statistics[-1]:
        statistics.pop()
    if len({write.element_type(place) for place in range(len(inputs))}) == 1:
        write.add_many("LayerNormalization", inputs, [write.output(0), *statistics], **own)
        return
    wide = _Common(write)
    results = [wide.place, *statistics]
    write.add_many("LayerNormalization", [wide.input(place) for place in range(len(inputs))], results, **own)
    wide.round()


class _Common:
    """Input and scale in the wider of their types, float32 at least; the result rounded once, to the scale's."""

    def __init__(self, write: Definition) -> None:
        from onnx import TensorProto

        self._write, self._kind = write, write.element_type(1)
        double = TensorProto.DOUBLE in (write.element_type(0), self._kind)
        self.kind = int(TensorProto.DOUBLE if double else TensorProto.FLOAT)
        self.place = write.output(0) if self._kind == self.kind else f"{write.output(0)}/wide"

    def input(self, place: int) -> str:
        """One in the wide type."""
        name = self._write.input(place)
        return name if self._write.element_type(place) == self.kind else self._write.add("Cast", name, to=self.kind)

    def round(self) -> None:
        """The output from its place."""
        if self._kind != self.kind:
            self._write.add("Cast", self.place, out=self._write.output(0), to=self._kind)


def define_skip_rms_norm(write: Definition) -> None:
    """Input + skip + bias, divided by the root of its mean square; outputs as of SkipLayerNormalization, no mean.

    Half precision in float32, rounded once; the inverse root stays float32.
    """
    if write.output(1):
        write.refuse("its output mean")
    total = write.total(write.input(0), write.input(1), write.input(3), out=write.output(3))
    wide = Widened(write)
    x, scale, result = wide.cast(total), wide.cast(write.input(2)), wide.place(write.output(0))
    root = _rms_norm(write, x, scale, wide.kind, EPSILON, result)
    if write.output(2):
        write.add("Reciprocal", root, out=write.output(2))
    wide.round(result, write.output(0))


def define_rms_norm(write: Definition) -> None:
    """The input divided by the root of its mean square from an axis on, times a scale; outputs: it, the inverse root.

    The scale's type need not be the input's.
    """
    rank = len(write.shape(0))
    if not rank:
        write.refuse("an input of unknown rank")
    write.attribute("stash_type", 1)  # statistics are float32 at least
    wide, axes = _Common(write), range(write.attribute("axis", -1) % rank, rank)
    root = _rms_norm(write, wide.input(0), wide.input(1), wide.kind, SIMPLIFIED_EPSILON, wide.place, axes)
    if write.output(1):
        write.add("Reciprocal", root, out=write.output(1))
    wide.round()


def _rms_norm(
    write: Definition, x: str, scale: str, kind: int, epsilon: float, result: str, axes: Sequence[int] = (-1,)
) -> str:
    """All in one type; gives the root."""
    mean = write.mean(write.add("Mul", x, x), *axes)
    root = write.add("Sqrt", write.add("Add", mean, write.number(write.attribute("epsilon", epsilon), kind)))
    write.add("Mul", write.add("Div", x, root), scale, out=result)
    return root


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
        count_words(write, ids, mask)
    _layer_norm(write, total, write.input(5), write.input(6), [write.output(0)])


def count_words(write: Definition, ids: str, mask: str) -> None:
    """The second output: how many of each row the mask, the input at place 7, is 1 for; 0 without one."""
    from onnx import TensorProto

    if mask:
        counted = write.add("Equal", mask, write.number(1, write.element_type(7)))
        ones = write.add("Cast", counted, to=int(TensorProto.INT32))
        write.add("ReduceSum", ones, write.integers(1), out=write.output(1), keepdims=0)
    else:
        zero = write.number(0, int(TensorProto.INT32))
        write.add("Expand", zero, write.add("Shape", ids, start=0, end=1), out=write.output(1))
