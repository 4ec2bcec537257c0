"""Cascades in the types of GPU models, their tile programs, and inputs for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Expr, Tensor, axis, cast, index, load, number, op
from redfuser.expr.evaluate import numpy_dtype
from redfuser.targets import GpuTarget, load_target
from redfuser.tile import Schedule, TileProgram, build, verify

Array = np.ndarray[Any, Any]
WORK = "float32"


def gpu(name: str) -> GpuTarget:
    """A GPU target by name."""
    found = load_target(name)
    assert isinstance(found, GpuTarget)
    return found


def program(
    cascade: Cascade,
    strategy: str = "single-segment",
    segments: int = 1,
    options: dict[str, int] | None = None,
    **tiles: int,
) -> TileProgram:
    """The verified program of a strategy with tiles by axis name."""
    schedule = Schedule(strategy, tuple(tiles.items()), segments, "", tuple((options or {}).items()))
    result = build(cascade, derive(cascade), schedule)
    verify(result)
    return result


def random_inputs(cascade: Cascade, seed: int = 0) -> dict[str, Array]:
    """Standard normal inputs; masks let about two thirds through."""
    random = np.random.default_rng(seed)

    def fill(tensor: Tensor) -> Array:
        if tensor.dtype == "bool":
            return random.random(tensor.shape) < 0.67
        if tensor.dtype == "uint8":
            return random.integers(0, 256, tensor.shape).astype("uint8")
        scale = 20 if tensor.dtype == "int8" else 1
        return (random.standard_normal(tensor.shape) * scale).astype(numpy_dtype(tensor.dtype))

    return {tensor.name: fill(tensor) for tensor in cascade.inputs}


def quantised_product(rows: int, length: int, columns: int, weights: str, largest: float, kept: str = "") -> Cascade:
    """Rows scaled to ``largest`` and rounded to the weights' type, times weights ``w[n, j]``.

    Args:
        kept: type in which memory holds the weights, if it is another.
    """
    i, j, n = axis("i", rows), axis("j", length), axis("n", columns)
    tensor = Tensor("x", (rows, length), "float16")
    x = cast(load(tensor, i, j), WORK)
    w = Tensor("w", (columns, length), kept or weights)
    a = Reduction(Tensor("a", (rows,), WORK), "max", (i,), j, op("abs", x))
    scale = op("div", a.value, number(largest, WORK))
    scaled = op("div", x, scale)
    rounded = cast(cast(op("round", scaled) if weights == "int8" else scaled, weights), WORK)
    product = op("mul", rounded, cast(load(w, n, j), WORK))
    g = Reduction(Tensor("g", (rows, columns), WORK), "sum", (i, n), j, product)
    value = cast(op("mul", g.value, scale), "float16")
    output = Output(Tensor("y", (rows, columns), "float16"), (i, n), (i, n), value)
    cascade = Cascade("quant_0", (i,), j, (tensor, w), (), (a, g), (output,))
    cascade.verify()
    return cascade


def integer_product(rows: int, length: int, columns: int, weights: str = "int8", shifted: bool = False) -> Cascade:
    """Rows scaled and rounded to int8 times weights ``w[j, n]``, summed as integers.

    Args:
        shifted: rows are rounded to uint8 instead, 128 standing for 0, and a zero point ``z[n]`` is taken from the
            weights.
    """
    i, j, n = axis("i", rows), axis("j", length), axis("n", columns)
    tensor, w = Tensor("x", (rows, length), WORK), Tensor("w", (length, columns), weights)
    x = load(tensor, i, j)
    a = Reduction(Tensor("a", (rows,), WORK), "max", (i,), j, op("abs", x))
    scale = op("div", a.value, number(127, WORK))
    rounded = cast(op("round", op("div", x, scale)), "int32")
    zero = Tensor("z", (columns,), weights)
    weight = cast(load(w, j, n), "int32")
    if shifted:
        byte = cast(op("add", rounded, number(128, "int32")), "uint8")
        left = op("sub", cast(byte, "int32"), number(128, "int32"))
        weight = op("sub", weight, cast(load(zero, n), "int32"))
    else:
        left = cast(cast(rounded, "int8"), "int32")
    g = Reduction(Tensor("g", (rows, columns), "int32"), "sum", (i, n), j, op("mul", left, weight))
    value = op("mul", cast(g.value, WORK), scale)
    output = Output(Tensor("y", (rows, columns), WORK), (i, n), (i, n), value)
    inputs = (tensor, w, zero) if shifted else (tensor, w)
    cascade = Cascade("integers_0", (i,), j, inputs, (), (a, g), (output,))
    cascade.verify()
    return cascade


def byte_product(rows: int, length: int, columns: int, left: str) -> Cascade:
    """A lone product of bytes ``x[i, j]``, of type ``left``, and int8 weights ``w[j, n]``, summed as integers."""
    i, j, n = axis("i", rows), axis("j", length), axis("n", columns)
    x, w = Tensor("x", (rows, length), left), Tensor("w", (length, columns), "int8")
    product = op("mul", cast(load(x, i, j), "int32"), cast(load(w, j, n), "int32"))
    g = Reduction(Tensor("g", (rows, columns), "int32"), "sum", (i, n), j, product)
    output = Output(Tensor("y", (rows, columns), WORK), (i, n), (i, n), cast(g.value, WORK))
    cascade = Cascade("bytes_0", (i,), j, (x, w), (), (g,), (output,))
    cascade.verify()
    return cascade


def softmax(rows: int, length: int, dtype: str, scale: float = 1.0) -> Cascade:
    """Softmax over scaled rows of a type, computed in float32."""
    i, j = axis("i", rows), axis("j", length)
    tensor = Tensor("x", (rows, length), dtype)
    x = cast(load(tensor, i, j), WORK)
    x = x if scale == 1 else op("mul", x, number(scale, WORK))
    m = Reduction(Tensor("m", (rows,), WORK), "max", (i,), j, x)
    weight = op("exp", op("sub", x, m.value))
    t = Reduction(Tensor("t", (rows,), WORK), "sum", (i,), j, weight)
    value = cast(op("div", weight, t.value), dtype)
    output = Output(Tensor("y", (rows, length), dtype), (i, j), (i, j), value)
    cascade = Cascade("softmax_0", (i,), j, (tensor,), (), (m, t), (output,))
    cascade.verify()
    return cascade


def scaled_product(rows: int, length: int, columns: int, dtype: str, scale: str) -> Cascade:
    """A product ``x[i, j] w[j, n]`` divided by something of its row: the largest magnitude, or the norm (``sqrt``)."""
    i, j, n = axis("i", rows), axis("j", length), axis("n", columns)
    tensor, w = Tensor("x", (rows, length), dtype), Tensor("w", (length, columns), dtype)
    x = cast(load(tensor, i, j), WORK)
    summed = ("sum", op("mul", x, x)) if scale == "sqrt" else ("max", op("abs", x))
    a = Reduction(Tensor("a", (rows,), WORK), summed[0], (i,), j, summed[1])
    divisor = op("sqrt", a.value) if scale == "sqrt" else a.value
    product = op("mul", op("div", x, divisor), cast(load(w, j, n), WORK))
    g = Reduction(Tensor("g", (rows, columns), WORK), "sum", (i, n), j, product)
    output = Output(Tensor("y", (rows, columns), dtype), (i, n), (i, n), cast(g.value, dtype))
    cascade = Cascade("scaled_0", (i,), j, (tensor, w), (), (a, g), (output,))
    cascade.verify()
    return cascade


@dataclass(frozen=True)
class Attention:
    """Attention in the type of a model, computed in float32, heads and features flattened in the output.

    Args:
        groups: query heads for each key head.
        mask: ``none``, ``bool`` (a table, hiding with float16's lowest number), or of positions with -inf: ``causal``
            (keys up to the query), ``window`` (and no more than 40 before it); ``finite`` hides as ``causal`` does,
            with float16's lowest number.
        past: keys before the first query's own, where positions hide.
    """

    dtype: str = "float16"
    heads: int = 2
    groups: int = 1
    q_len: int = 128
    kv_len: int = 256
    dim: int = 64
    v_dim: int = 64
    mask: str = "none"
    batch: int = 1
    past: int = 0

    def cascade(self) -> Cascade:
        b, h, i, j = axis("b", self.batch), axis("h", self.heads), axis("i", self.q_len), axis("j", self.kv_len)
        d, e = axis("d", self.dim), axis("e", self.v_dim)
        rows = (b, h, i)
        kv_head: Expr = op("floordiv", h, index(self.groups)) if self.groups > 1 else h
        kv_head = index(0) if self.groups == self.heads > 1 else kv_head
        kv_heads = self.heads // self.groups
        q = Tensor("q", (self.batch, self.heads, self.q_len, self.dim), self.dtype)
        k = Tensor("k", (self.batch, kv_heads, self.kv_len, self.dim), self.dtype)
        v = Tensor("v", (self.batch, kv_heads, self.kv_len, self.v_dim), self.dtype)
        mask = Tensor("mask", (self.q_len, self.kv_len), "bool")
        product = op("mul", cast(load(q, b, h, i, d), WORK), cast(load(k, b, kv_head, j, d), WORK))
        dot = Reduction(
            Tensor("dot", (self.batch, self.heads, self.q_len, self.kv_len), WORK), "sum", (*rows, j), d, product
        )
        score: Expr = op("mul", dot.value, number(self.dim**-0.5, WORK))
        if self.mask == "bool":
            lowest = number(-65504.0, WORK)
            score = op("add", score, op("select", load(mask, i, j), number(0, WORK), lowest))
        if self.mask in ("causal", "window", "finite"):
            query = op("add", i, index(self.past)) if self.past != 0 else i
            seen = op("le", j, query)
            if self.mask == "window":
                seen = op("and", seen, op("ge", j, op("sub", query, index(40))))
            hiding = -65504.0 if self.mask == "finite" else float("-inf")
            score = op("add", score, op("select", seen, number(0, WORK), number(hiding, WORK)))
        shape = (self.batch, self.heads, self.q_len)
        m = Reduction(Tensor("m", shape, WORK), "max", rows, j, score)
        weight = op("exp", op("sub", score, m.value))
        t = Reduction(Tensor("t", shape, WORK), "sum", rows, j, weight)
        p = op("div", weight, t.value)
        if self.dtype != WORK:
            p = cast(cast(p, self.dtype), WORK)
        value = op("mul", p, cast(load(v, b, kv_head, j, e), WORK))
        o = Reduction(Tensor("o", (*shape, self.v_dim), WORK), "sum", (*rows, e), j, value)
        out = Tensor("out", (self.batch, self.q_len, self.heads * self.v_dim), self.dtype)
        flat = op("add", op("mul", h, index(self.v_dim)), e)
        output = Output(out, (*rows, e), (b, i, flat), cast(o.value, self.dtype))
        inputs = (q, k, *((mask,) if self.mask == "bool" else ()), v)
        cascade = Cascade("attention_0", rows, j, inputs, (dot,), (m, t, o), (output,))
        cascade.verify()
        return cascade
