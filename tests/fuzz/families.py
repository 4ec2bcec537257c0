"""What is computed: families of cascades with random sizes, axes and types, each written by a speller."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from tests.fuzz.choices import quantisation, routing
from tests.fuzz.speller import HIDDEN, Speller, Value

Family = Callable[[random.Random, Speller], None]


@dataclass(frozen=True)
class Case:
    """One computation: everything but its spelling follows from the seed.

    Args:
        of: the family; drawn from :data:`FAMILIES` if not given.
    """

    seed: int
    of: str = ""

    @property
    def family(self) -> str:
        """Its name."""
        return self._draw()[0]

    def model(self, spelling: int) -> ModelProto:
        """The computation in one spelling; 0 is the plain one."""
        family, dtype, sizes = self._draw()
        speller = Speller(dtype, random.Random(f"{self.seed}/{spelling}"), spelling == 0)
        (FAMILIES | CHOICES)[family](sizes, speller)
        return speller.build.model()

    def feeds(self, model: ModelProto) -> dict[str, np.ndarray]:
        """The same inputs for every spelling. Of a mask, every row sees something."""
        feeds = {}
        for value in model.graph.input:
            generator = np.random.default_rng([self.seed, *value.name.encode()])
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if value.name == "seen":
                seen = generator.random(shape) < 0.7
                seen[..., 0] = True
                feeds[value.name] = seen
            else:
                kind = np.float16 if value.type.tensor_type.elem_type == 10 else np.float32
                feeds[value.name] = generator.standard_normal(shape).astype(kind)
        return feeds

    def _draw(self) -> tuple[str, str, random.Random]:
        sizes = random.Random(self.seed)
        if self.of:
            return self.of, "float32", sizes
        family = sizes.choice(sorted(FAMILIES))
        return family, sizes.choice(["float32"] * 5 + ["float16"]), sizes

    def __str__(self) -> str:
        return f"{self.family}, seed {self.seed}"


def data(sizes: random.Random, speller: Speller, name: str = "x") -> tuple[Value, int]:
    """An input and the axis to reduce, which may be anywhere."""
    rank = sizes.choice([2, 2, 3, 4])
    axis = sizes.choice([rank - 1, rank - 1, sizes.randrange(rank)])
    shape = [sizes.choice([2, 3, 4, 6]) for _ in range(rank)]
    shape[axis] = sizes.choice([7, 16, 33, 40])
    return speller.input(name, *shape), axis


def attention(sizes: random.Random, s: Speller) -> None:
    lead = (sizes.choice([1, 2]), sizes.choice([1, 2, 3]))
    rows, keys = sizes.choice([1, 5, 16]), sizes.choice([7, 16, 33])
    width, value_width = sizes.choice([4, 8]), sizes.choice([4, 8])
    mask, cap, guard = sizes.choice(["none", "bool", "float", "causal"]), sizes.random() < 0.2, sizes.random() < 0.3
    q, k = s.input("q", *lead, rows, width), s.input("k", *lead, keys, width)
    v = s.input("v", *lead, keys, value_width)
    scores = scaled_scores(s, q, k, width**-0.5)
    if cap:
        scores = s.scaled(s.unary("Tanh", s.scaled(scores, 0.2)), 5.0)
    scores = masked(s, scores, mask, rows, keys)
    weights = s.softmax(scores, 3)
    if guard:
        absent = Value(s.build.node("IsNaN", weights.name), weights.shape)
        weights = Value(s.build.node("Where", absent.name, s.number(0.0).name, weights.name), weights.shape)
    s.output(s.product(weights, v), "out")
    if sizes.random() < 0.15:
        s.output(s.reduce("max", scores, 3), "top")


def scaled_scores(s: Speller, q: Value, k: Value, scale: float) -> Value:
    """The scale after the product, on one side, or half of it on each."""
    turned = s.spell(lambda: s.transpose(k, [0, 1, 3, 2]))
    half = scale**0.5
    return s.pick(
        lambda: s.scaled(s.product(q, turned), scale),
        lambda: s.product(s.scaled(q, scale), turned),
        lambda: s.product(q, s.scaled(turned, scale)),
        lambda: s.product(s.scaled(q, half), s.scaled(turned, half)),
    )()


def masked(s: Speller, scores: Value, mask: str, rows: int, keys: int) -> Value:
    """Scores that mayn't be seen are replaced, or something very negative is added to them."""
    if mask == "none":
        return scores
    if mask == "float":
        return s.add(scores, s.input("bias", 1, 1, rows, keys))
    if mask == "bool":
        seen = s.input("seen", scores.shape[0], 1, rows, keys, dtype="bool")
    else:
        below = np.tri(rows, keys, keys - rows if rows < keys else 0, dtype=np.bool_)[None, None]
        seen = Value(s.build.constant(below), (1, 1, rows, keys))
    low = s.number(s.pick(HIDDEN[s.dtype], -np.inf))
    zero, one = s.number(0.0), s.number(1.0)
    hidden = s.build.node("Not", seen.name)
    as_number = s.build.node("Cast", seen.name, to=10 if s.dtype == "float16" else 1)
    bias = s.pick(
        lambda: Value(s.build.node("Where", seen.name, zero.name, low.name), seen.shape),
        lambda: Value(s.build.node("Where", hidden, low.name, zero.name), seen.shape),
        lambda: s.node("Mul", s.node("Sub", one, Value(as_number, seen.shape)), s.number(HIDDEN[s.dtype])),
    )
    return s.spell(
        lambda: s.add(scores, bias()),
        lambda: Value(s.build.node("Where", seen.name, scores.name, low.name), scores.shape),
        lambda: Value(s.build.node("Where", hidden, low.name, scores.name), scores.shape),
    )


def softmax_rows(sizes: random.Random, s: Speller) -> None:
    """Softmax and what is made of it."""
    x, axis = data(sizes, s)
    use = sizes.choice(["softmax", "log_softmax", "log_sum_exp", "weighted", "entropy", "temperature"])
    if use == "temperature":
        x = s.scaled(x, sizes.choice([0.5, 1.7]))
    if use == "log_softmax":
        return s.output(s.log_softmax(x, axis), "out")
    if use == "log_sum_exp":
        return s.output(s.log_sum_exp(x, axis), "out")
    p = s.softmax(x, axis)
    if use == "weighted":
        p = s.reduce("sum", s.mul(p, s.input("v", *x.shape)), axis)
    if use == "entropy":
        p = s.reduce("sum", s.mul(p, s.log_softmax(x, axis)), axis)
    s.output(p, "out")


def norm(sizes: random.Random, s: Speller) -> None:
    """RMS or layer normalisation of one axis, with or without gain and a product behind it."""
    x, axis = data(sizes, s)
    centred = s.sub(x, s.reduce("mean", x, axis)) if sizes.random() < 0.5 else x
    spread = s.pick(
        lambda: s.reduce("mean", s.square(centred), axis),
        lambda: s.scaled(s.reduce("sum_square", centred, axis), 1 / x.shape[axis]),
    )()
    result = s.div(centred, s.sqrt(s.add(spread, s.number(1e-5, x.rank))))
    if sizes.random() < 0.5:
        gain = s.input("gain", *[extent if i == axis else 1 for i, extent in enumerate(x.shape)])
        result = s.mul(result, gain)
    if axis == x.rank - 1 and sizes.random() < 0.4:
        result = s.product(result, s.input("w", *x.shape[:-2], x.shape[-1], 6))
    s.output(result, "out")


def moments(sizes: random.Random, s: Speller) -> None:
    """Central moments, covariance, and their weighted forms."""
    x, axis = data(sizes, s)
    kind = sizes.choice(["variance", "deviation", "covariance", "third", "inertia"])
    if kind == "inertia":
        mass = s.unary("Abs", s.input("mass", *x.shape))
        centre = s.div(s.reduce("sum", s.mul(mass, x), axis), s.reduce("sum", mass, axis))
        return s.output(s.reduce("sum", s.mul(mass, s.square(s.sub(x, centre))), axis), "out")
    centred = s.sub(x, s.reduce("mean", x, axis))
    if kind == "covariance":
        other = s.input("z", *x.shape)
        term = s.mul(centred, s.sub(other, s.reduce("mean", other, axis)))
    else:
        term = s.square(centred) if kind != "third" else s.mul(s.square(centred), centred)
    result = s.reduce("mean", term, axis)
    s.output(s.sqrt(result) if kind == "deviation" else result, "out")


def chain(sizes: random.Random, s: Speller) -> None:
    """A reduction, a map that joins its result with the elements, another reduction: fused or not, but always alike."""
    x, axis = data(sizes, s)
    first = s.reduce(sizes.choice(["sum", "mean", "max", "min", "sum_square"]), x, axis)
    joins: dict[str, Callable[[], Value]] = {
        "difference": lambda: s.sub(x, first),
        "square": lambda: s.square(s.sub(x, first)),
        "exponential": lambda: s.unary("Exp", s.scaled(s.sub(x, first), 0.5)),
        "product": lambda: s.mul(x, first),
        "shifted": lambda: s.mul(s.add(x, s.number(1.5, x.rank)), first),
        "tanh": lambda: s.unary("Tanh", s.sub(x, first)),
        "quotient": lambda: s.div(x, s.add(s.square(first), s.number(0.5, x.rank))),
    }
    joined = joins[sizes.choice(sorted(joins))]()
    result = s.reduce(sizes.choice(["sum", "mean", "max"]), joined, axis)
    s.output(result, "out")
    if sizes.random() < 0.2:
        s.output(first, "first")


FAMILIES: dict[str, Family] = {
    "attention": attention,
    "chain": chain,
    "moments": moments,
    "norm": norm,
    "softmax_rows": softmax_rows,
}

#: Families whose seeds are counted apart.
CHOICES: dict[str, Family] = {"quantisation": quantisation, "routing": routing}
