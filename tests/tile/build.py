"""Cascades with producers and outputs, as detection leaves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Const, Expr, Tensor, axes_of, axis, cast, index, load, loads, number, op
from redfuser.extents import Extent, is_symbolic
from redfuser.tile import Schedule, TileProgram, build, verify
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN

F32 = "float32"
STRATEGIES = ("single-segment", "multi-segment", "resident")
Inputs = dict[str, np.ndarray[Any, Any]]


def value(x: float) -> Const:
    """A float32 constant."""
    return number(x, F32)


def tensor(name: str, *axes: Axis, dtype: str = F32) -> Tensor:
    """A tensor of the axes' extents."""
    return Tensor(name, tuple(a.extent for a in axes), dtype)


def keep(name: str, result: Expr, axes: tuple[Axis, ...]) -> Output:
    """An output stored at its own axes."""
    return Output(tensor(name, *axes, dtype=result.dtype), axes, axes, result)


def program(
    cascade: Cascade, strategy: str, segments: int = 1, lanes: str = "", skip: bool = False, **tiles: int
) -> TileProgram:
    """The verified program of a strategy with tiles by axis name; ``skip`` passes over what a mask hides."""
    options = ((SKIP_HIDDEN, 1),) if skip else ()
    schedule = Schedule(strategy, tuple(tiles.items()), segments, lanes, options)
    result = build(cascade, derive(cascade), schedule)
    verify(result)
    return result


def random_inputs(cascade: Cascade, seed: int = 0) -> Inputs:
    """Standard normal inputs."""
    random = np.random.default_rng(seed)
    return {t.name: random.standard_normal(t.shape).astype(t.dtype) for t in cascade.inputs}


@dataclass(frozen=True)
class Attention:
    """Sizes and spelling of one attention.

    Args:
        groups: query heads for each key head.
        mask: ``none``, ``add`` (a float tensor over queries and keys), ``bool`` (a select with finfo.min), or of
            positions with -inf: ``causal`` (keys up to the query), ``window`` (and no more than 5 before it).
        guard: the exporter's IsNaN guard around the probabilities.
        score: applied to the scaled and masked score.
    """

    heads: int = 2
    groups: int = 1
    q_len: int = 7
    kv_len: int = 13
    dim: int = 4
    v_dim: int = 4
    mask: str = "add"
    guard: bool = False
    score: Callable[[Expr], Expr] = lambda s: s

    def cascade(self) -> Cascade:
        """q · kᵀ · scale + mask → softmax → · v, output with heads and features flattened together."""
        b, h = axis("b", 1), axis("h", self.heads)
        i, j = axis("i", self.q_len), axis("j", self.kv_len)
        d, e = axis("d", self.dim), axis("e", self.v_dim)
        rows = (b, h, i)
        kv_head = op("floordiv", h, index(self.groups)) if self.groups > 1 else h
        q = tensor("q", b, h, i, d)
        k = Tensor("k", (1, self.heads // self.groups, self.kv_len, self.dim), F32)
        v = Tensor("v", (1, self.heads // self.groups, self.kv_len, self.v_dim), F32)
        dot = tensor("dot", *rows, j)
        producer = Reduction(dot, "sum", (*rows, j), d, op("mul", load(q, b, h, i, d), load(k, b, kv_head, j, d)))
        score = self.score(self._masked(op("mul", producer.value, value(0.5)), i, j))
        m = Reduction(tensor("m", *rows), "max", rows, j, score)
        weight = op("exp", op("sub", m.map, m.value))
        t = Reduction(tensor("t", *rows), "sum", rows, j, weight)
        p = op("div", weight, t.value)
        if self.guard:
            p = op("select", op("isnan", p), value(0), p)
        o = Reduction(tensor("o", *rows, e), "sum", (*rows, e), j, op("mul", p, load(v, b, kv_head, j, e)))
        out = Tensor("out", (1, self.q_len, self.heads * self.v_dim), F32)
        flat = op("add", op("mul", h, index(self.v_dim)), e)
        inputs = tuple(dict.fromkeys(n.tensor for n in loads(producer.map) + loads(score) if n.tensor != dot))
        output = Output(out, (*rows, e), (b, i, flat), o.value)
        cascade = Cascade("attention_0", rows, j, (*inputs, v), (producer,), (m, t, o), (output,))
        cascade.verify()
        return cascade

    def _masked(self, score: Expr, i: Axis, j: Axis) -> Expr:
        if self.mask == "none":
            return score
        if self.mask in ("causal", "window"):
            seen = op("le", j, i)
            if self.mask == "window":
                seen = op("and", seen, op("ge", j, op("sub", i, index(5))))
            return op("add", score, op("select", seen, value(0), value(float("-inf"))))
        mask = load(tensor("mask", i, j, dtype="bool" if self.mask == "bool" else F32), i, j)
        if self.mask == "bool":
            mask = op("select", mask, value(0), value(float(np.finfo(np.float32).min)))
        return op("add", score, mask)

    def inputs(self, visible: np.ndarray[Any, Any] | None = None) -> Inputs:
        """Random inputs; ``visible`` (queries × keys, about two thirds if not given) goes into the mask."""
        cascade = self.cascade()
        result = random_inputs(cascade)
        if self.mask in ("add", "bool"):
            if visible is None:
                visible = np.random.default_rng(1).random((self.q_len, self.kv_len)) < 0.67
            result["mask"] = visible if self.mask == "bool" else np.where(visible, 0, -np.inf).astype(F32)
        return result


ROW, ITEM = axis("i", 5), axis("l", 23)


@dataclass
class Rows:
    """Cascades over one input ``x[i, l]`` without products."""

    row: Axis = ROW
    item: Axis = ITEM

    def __post_init__(self) -> None:
        self.x = load(tensor("x", self.row, self.item), self.row, self.item)

    def reduction(self, name: str, combiner: str, element: Expr) -> Reduction:
        """A reduction of one number a row."""
        return Reduction(tensor(name, self.row), combiner, (self.row,), self.item, element)

    def cascade(self, name: str, reductions: tuple[Reduction, ...], *outputs: Expr) -> Cascade:
        """With outputs ``y0``, ``y1`` … over the rows, or over rows and items where a value varies with them."""
        stored = []
        for number_, result in enumerate(outputs):
            along = self.item in axes_of(result)
            stored.append(keep(f"y{number_}", result, (self.row, self.item) if along else (self.row,)))
        used = [n.tensor for e in (*(r.map for r in reductions), *outputs) for n in loads(e)]
        results = {r.result for r in reductions}
        inputs = tuple(dict.fromkeys(t for t in used if t not in results))
        cascade = Cascade(name, (self.row,), self.item, inputs, (), reductions, tuple(stored))
        cascade.verify()
        return cascade

    def softmax_parts(self) -> tuple[Reduction, Reduction, Expr]:
        """Maximum, sum, and the probability."""
        m = self.reduction("m", "max", self.x)
        weight = op("exp", op("sub", self.x, m.value))
        t = self.reduction("t", "sum", weight)
        return m, t, op("div", weight, t.value)

    def softmax(self) -> Cascade:
        m, t, p = self.softmax_parts()
        return self.cascade("softmax_0", (m, t), p)

    def logsumexp(self) -> Cascade:
        m, t, _ = self.softmax_parts()
        return self.cascade("logsumexp_0", (m, t), op("add", op("log", t.value), m.value))

    def moments(self) -> tuple[Reduction, Reduction, Expr, Expr]:
        """Sum, centred sum of squares, the centred element and the variance."""
        length = self.item.extent
        count = cast(index(length), F32) if is_symbolic(length) else value(float(length))
        total = self.reduction("s", "sum", self.x)
        centred = op("sub", self.x, op("div", total.value, count))
        squares = self.reduction("c", "sum", op("mul", centred, centred))
        return total, squares, centred, op("div", squares.value, count)

    def variance(self) -> Cascade:
        total, squares, _, variance = self.moments()
        return self.cascade("moments_0", (total, squares), variance)

    def layer_norm(self) -> Cascade:
        total, squares, centred, variance = self.moments()
        scaled = op("mul", centred, op("rsqrt", op("add", variance, value(1e-5))))
        gain = load(tensor("gain", self.item), self.item)
        return self.cascade("norm_0", (total, squares), op("mul", scaled, gain))

    def quantise(self) -> Cascade:
        """Per-row scale from the largest magnitude, and the rounded row."""
        largest = self.reduction("m", "max", op("abs", self.x))
        rounded = op("round", op("div", self.x, op("div", largest.value, value(127))))
        total = self.reduction("s", "sum", rounded)
        return self.cascade("quant_0", (largest, total), rounded, total.value)

    def absmax_scaled(self) -> Cascade:
        """Each element by the row's largest magnitude."""
        largest = self.reduction("m", "max", op("abs", self.x))
        return self.cascade("norm_0", (largest,), op("div", self.x, largest.value))

    def two_softmaxes(self) -> Cascade:
        """Two independent cascades over one axis, and a value of both."""
        m, t, _ = self.softmax_parts()
        y = load(tensor("z", self.row, self.item), self.row, self.item)
        n = self.reduction("n", "min", y)
        u = self.reduction("u", "sum", op("exp", op("sub", n.value, y)))
        return self.cascade("other_0", (m, t, n, u), op("div", t.value, u.value), op("sub", m.value, n.value))


def quantised_product(rows: Extent, depth: Extent, columns: Extent) -> Cascade:
    """``y = Σ_l int8(x/s)·w · s``, with s a row's largest magnitude over 127."""
    i, j, k = axis("i", rows), axis("j", columns), axis("l", depth)
    x, w = tensor("x", i, k), tensor("w", k, j, dtype="int8")
    m = Reduction(tensor("m", i), "max", (i,), k, op("abs", load(x, i, k)))
    scale = op("div", m.value, value(127))
    whole = op("select", op("eq", m.value, value(0)), value(0), op("round", op("div", load(x, i, k), scale)))
    factors = cast(cast(cast(whole, "int32"), "int8"), "int32"), cast(load(w, k, j), "int32")
    total = Reduction(tensor("t", i, j, dtype="int32"), "sum", (i, j), k, op("mul", *factors))
    outputs = (keep("y", op("mul", cast(total.value, F32), scale), (i, j)),)
    return Cascade("quantised", (i,), k, (x, w), (), (m, total), outputs)
