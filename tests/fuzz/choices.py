"""More that is computed: routing and quantisation, whose answers are choices. In float32: rounding decides ties."""

from __future__ import annotations

import random

from tests.fuzz.speller import Speller, Value


def routing(sizes: random.Random, s: Speller) -> None:
    """Scores of experts, the best few, and their weights."""
    tokens, experts, k = sizes.choice([1, 5, 16]), sizes.choice([6, 8, 33]), sizes.choice([2, 3, 4])
    score = sizes.choice(["softmax", "sigmoid", "none"])
    biased = score == "sigmoid" and sizes.random() < 0.5
    # The best of what no reduction made are one reduction, no cascade.
    use = sizes.choice(["raw", "shares", "softmax"] if score == "softmax" else ["shares", "softmax"])
    logits = s.input("x", tokens, experts)
    if sizes.random() < 0.4:
        logits = s.product(s.input("h", tokens, 8), s.input("gate", 8, experts))
    if score == "softmax":
        scores = s.softmax(logits, 1)
    else:
        scores = s.unary("Sigmoid", logits) if score == "sigmoid" else logits
    keys = s.add(scores, s.scaled(s.input("bias", experts), 0.1)) if biased else scores
    best, places = top(s, keys, k)
    weights = gathered(s, scores, places) if biased else s.pick(lambda: best, lambda: gathered(s, scores, places))()
    if use == "shares":
        weights = s.div(weights, s.add(s.reduce("sum", weights, 1), s.number(1e-20, 2)))
    if use == "softmax":
        weights = s.softmax(weights, 1)
    s.output(weights, "weights")
    s.build.output(places.name, places.shape, "int64", "places")


def top(s: Speller, x: Value, k: int) -> tuple[Value, Value]:
    """The best ``k`` of each row and where they are; the axis where it is, or moved to the front."""
    moved = s.pick(False, False, True)
    source, axis = (s.transpose(x, [1, 0]), 0) if moved else (x, s.pick(1, -1))
    names = s.build.nodes("TopK", source.name, s.integers(k), outputs=2, axis=axis)
    shape = (k, x.shape[0]) if moved else (x.shape[0], k)
    best, places = (Value(name, shape) for name in names)
    return (s.transpose(best, [1, 0]), s.transpose(places, [1, 0])) if moved else (best, places)


def gathered(s: Speller, x: Value, places: Value) -> Value:
    """Elements of the rows at these places."""
    return Value(s.build.node("GatherElements", x.name, places.name, axis=s.pick(1, -1)), places.shape)


def quantisation(sizes: random.Random, s: Speller) -> None:
    """To 8 bits by row, column or block, and back; a product in between, or not."""
    rows, columns = sizes.choice([3, 8]), sizes.choice([16, 33, 40])
    kind = sizes.choice(["symmetric", "symmetric", "asymmetric"])
    axis = sizes.choice([1, 1, 0])
    floor, product = sizes.random() < 0.5, axis == 1 and sizes.random() < 0.4
    x = s.input("x", rows, columns)
    if axis == 1 and columns % 8 == 0 and not product and sizes.random() < 0.4:
        x, axis = Value(s.build.node("Reshape", x.name, s.integers(rows, columns // 8, 8)), (rows, columns // 8, 8)), 2
    if kind == "symmetric":
        scale = s.scaled(s.reduce("max", s.unary("Abs", x), axis), 1 / 127)
        scale = s.node("Max", scale, s.number(1e-8, x.rank)) if floor else scale
        codes = clipped(s, s.unary("Round", s.div(x, scale)), -128.0, 127.0)
    else:
        low, high = s.reduce("min", x, axis), s.reduce("max", x, axis)
        scale = s.scaled(s.sub(high, low), 1 / 255)
        zero = s.unary("Round", s.unary("Neg", s.div(low, scale)))
        codes = s.sub(clipped(s, s.add(s.unary("Round", s.div(x, scale)), zero), 0.0, 255.0), zero)
    result = s.mul(s.product(codes, s.input("w", columns, 6)) if product else codes, scale)
    s.output(result, "out")


def clipped(s: Speller, x: Value, low: float, high: float) -> Value:
    """Brought between two numbers."""
    return s.spell(
        lambda: Value(s.build.node("Clip", x.name, s.number(low).name, s.number(high).name), x.shape),
        lambda: s.node("Min", s.node("Max", x, s.number(low, x.rank)), s.number(high, x.rank)),
    )
