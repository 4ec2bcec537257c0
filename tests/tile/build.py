"""Cascades with producers and outputs, as detection leaves them, and their derivations written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Const, Expr, Tensor, axis, index, load, number, op

F32 = "float32"
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


@dataclass(frozen=True)
class Attention:
    """Sizes and spelling of one attention.

    Args:
        groups: queries heads for each key head.
        mask: ``none``, ``add`` (a float tensor over queries and keys) or ``bool`` (a select with finfo.min).
        guard: the exporter's IsNaN guard around the probabilities.
    """

    batch: int = 1
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
        b, h = axis("b", self.batch), axis("h", self.heads)
        i, j = axis("i", self.q_len), axis("j", self.kv_len)
        d, e = axis("d", self.dim), axis("e", self.v_dim)
        rows = (b, h, i)
        kv_heads = self.heads // self.groups
        shared = op("floordiv", h, index(self.groups)) if self.groups > 1 else h
        q = Tensor("q", (self.batch, self.heads, self.q_len, self.dim), F32)
        k = Tensor("k", (self.batch, kv_heads, self.kv_len, self.dim), F32)
        v = Tensor("v", (self.batch, kv_heads, self.kv_len, self.v_dim), F32)
        dot = tensor("dot", b, h, i, j)
        producer = Reduction(dot, "sum", (b, h, i, j), d, op("mul", load(q, b, h, i, d), load(k, b, shared, j, d)))
        score = op("mul", producer.value, value(0.5))
        inputs = [q, k]
        if self.mask == "add":
            inputs.append(Tensor("mask", (self.batch, 1, self.q_len, self.kv_len), F32))
            score = op("add", score, load(inputs[-1], b, index(0), i, j))
        elif self.mask == "bool":
            inputs.append(Tensor("mask", (self.batch, 1, self.q_len, self.kv_len), "bool"))
            hidden = op("select", load(inputs[-1], b, index(0), i, j), value(0), value(np.finfo(np.float32).min))
            score = op("add", score, hidden)
        score = self.score(score)
        m = Reduction(tensor("m", *rows), "max", rows, j, score)
        weight = op("exp", op("sub", score, m.value))
        t = Reduction(tensor("t", *rows), "sum", rows, j, weight)
        p = op("div", weight, t.value)
        if self.guard:
            p = op("select", op("isnan", p), value(0), p)
        o = Reduction(tensor("o", *rows, e), "sum", (*rows, e), j, op("mul", p, load(v, b, shared, j, e)))
        out = Tensor("out", (self.batch, self.q_len, self.heads * self.v_dim), F32)
        flat = op("add", op("mul", h, index(self.v_dim)), e)
        output = Output(out, (*rows, e), (b, i, flat), o.value)
        cascade = Cascade("attention_0", rows, j, (*inputs, v), (producer,), (m, t, o), (output,))
        cascade.verify()
        return cascade

    def inputs(self, seed: int = 0) -> Inputs:
        """Random inputs; a mask hides about a third."""
        random = np.random.default_rng(seed)
        result: Inputs = {}
        for item in self.cascade().inputs:
            if item.name == "mask":
                hidden = random.random(item.shape) < 0.3
                result["mask"] = ~hidden if item.dtype == "bool" else np.where(hidden, -np.inf, 0).astype(F32)
            else:
                result[item.name] = random.standard_normal(item.shape).astype(F32)
        return result
