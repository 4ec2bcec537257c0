"""One attention in the spellings that exporters use: the same function, other nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import ModelProto

from .builder import Builder

SPELLINGS = ("eager", "divided", "scaled_query", "sdpa", "handwritten", "replacement", "operator")
MASKS = ("none", "boolean", "additive", "causal")


@dataclass(frozen=True)
class AttentionShape:
    """Sizes; ``kv_heads`` below ``heads`` is grouped-query attention, ``value_dim`` may differ from ``head_dim``."""

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    head_dim: int
    value_dim: int


def attention(
    spelling: str = "eager",
    batch: int = 1,
    heads: int = 2,
    kv_heads: int | None = None,
    q_len: int = 8,
    kv_len: int = 8,
    head_dim: int = 16,
    value_dim: int | None = None,
    mask: str = "none",
    softcap: float = 0.0,
    dtype: str = "float32",
) -> ModelProto:
    """``softmax(softcap(Q·Kᵀ/√d) + mask)·V`` as one graph.

    Inputs are ``q`` [batch, heads, q_len, head_dim], ``k`` [batch, kv_heads, kv_len, head_dim], ``v``
    [batch, kv_heads, kv_len, value_dim] and, for a mask that isn't constant, ``mask`` [batch, 1, q_len, kv_len]:
    True where a key is seen, or what is added to the scores.

    Args:
        spelling: one of :data:`SPELLINGS`.
        mask: one of :data:`MASKS`; ``causal`` is a constant.

    Raises:
        ValueError: an unknown spelling or mask, or a replacement mask without a mask to replace by.
    """
    if spelling not in SPELLINGS or mask not in MASKS:
        raise ValueError(f"no spelling {spelling!r} with mask {mask!r}")
    if spelling == "replacement" and mask not in ("boolean", "causal"):
        raise ValueError("a replacement needs a boolean mask")
    shape = AttentionShape(batch, heads, kv_heads or heads, q_len, kv_len, head_dim, value_dim or head_dim)
    return _Attention(spelling, shape, mask, softcap, dtype).write()


class _Attention:
    def __init__(self, spelling: str, shape: AttentionShape, mask: str, softcap: float, dtype: str) -> None:
        self.spelling, self.shape, self.mask, self.softcap, self.dtype = spelling, shape, mask, softcap, dtype
        self.build = Builder(f"attention_{spelling}", opset=23 if spelling == "operator" else 18)

    def write(self) -> ModelProto:
        shape, build = self.shape, self.build
        query = build.input("q", (shape.batch, shape.heads, shape.q_len, shape.head_dim), self.dtype)
        key = build.input("k", (shape.batch, shape.kv_heads, shape.kv_len, shape.head_dim), self.dtype)
        value = build.input("v", (shape.batch, shape.kv_heads, shape.kv_len, shape.value_dim), self.dtype)
        if self.spelling == "operator":
            result = self.operator(query, key, value)
        else:
            scores = self.masked(self.capped(self.scores(query, self.grouped(key, shape.head_dim))))
            result = build.node("MatMul", self.softmax(scores), self.grouped(value, shape.value_dim))
        build.output(result, (shape.batch, shape.heads, shape.q_len, shape.value_dim), self.dtype)
        return build.model()

    def number(self, value: float) -> str:
        return self.build.constant(value, self.dtype)

    def operator(self, query: str, key: str, value: str) -> str:
        """The Attention operator of opset 23."""
        given = [self.mask_input()] if self.mask in ("boolean", "additive") else []
        causal = int(self.mask == "causal")
        return self.build.node("Attention", query, key, value, *given, softcap=self.softcap, is_causal=causal)

    def scores(self, query: str, key: str) -> str:
        """``Q·Kᵀ/√d``."""
        build, root = self.build, math.sqrt(self.shape.head_dim)
        if self.spelling == "sdpa":
            half = self.number(1 / math.sqrt(root))
            scaled = build.node("Mul", self.transposed_flat(key), half)
            return build.node("MatMul", build.node("Mul", query, half), scaled)
        if self.spelling == "scaled_query":
            query = build.node("Mul", query, self.number(1 / root))
        product = build.node("MatMul", query, build.node("Transpose", key, perm=[0, 1, 3, 2]))
        if self.spelling == "scaled_query":
            return product
        if self.spelling == "divided":
            return build.node("Div", product, self.number(root))
        return build.node("Mul", product, self.number(1 / root))

    def transposed_flat(self, key: str) -> str:
        """K transposed through three dimensions."""
        build, shape = self.build, self.shape
        flat = build.node("Reshape", key, build.constant([-1, shape.kv_len, shape.head_dim]))
        turned = build.node("Transpose", flat, perm=[0, 2, 1])
        return build.node("Reshape", turned, build.constant([shape.batch, shape.heads, shape.head_dim, shape.kv_len]))

    def grouped(self, tensor: str, width: int) -> str:
        """Each key or value head repeated for its group of query heads."""
        build, shape = self.build, self.shape
        if shape.kv_heads == shape.heads:
            return tensor
        group = shape.heads // shape.kv_heads
        apart = build.node("Unsqueeze", tensor, build.constant([2]))
        size = build.constant([shape.batch, shape.kv_heads, group, shape.kv_len, width])
        repeated = build.node("Expand", apart, size)
        return build.node("Reshape", repeated, build.constant([shape.batch, shape.heads, shape.kv_len, width]))

    def capped(self, scores: str) -> str:
        """``cap·tanh(scores/cap)``."""
        if not self.softcap:
            return scores
        cap = self.number(self.softcap)
        return self.build.node("Mul", self.build.node("Tanh", self.build.node("Div", scores, cap)), cap)

    def mask_input(self) -> str:
        shape = (self.shape.batch, 1, self.shape.q_len, self.shape.kv_len)
        return self.build.input("mask", shape, "bool" if self.mask == "boolean" else self.dtype)

    def masked(self, scores: str) -> str:
        """The mask added to the scores, or put in their place."""
        build = self.build
        if self.mask == "none":
            return scores
        if self.mask == "additive":
            return build.node("Add", scores, self.mask_input())
        if self.mask == "causal":
            seen = build.constant(np.tri(self.shape.q_len, self.shape.kv_len, dtype=np.bool_)[None, None])
        else:
            seen = self.mask_input()
        lowest = self.number(-math.inf if self.spelling == "sdpa" else float(ml_dtypes.finfo(self.dtype).min))
        if self.spelling == "replacement":
            return build.node("Where", seen, scores, lowest)
        return build.node("Add", scores, build.node("Where", seen, self.number(0.0), lowest))

    def softmax(self, scores: str) -> str:
        """The operator, the operator with a guard against rows that see nothing, or its parts."""
        build = self.build
        if self.spelling == "handwritten":
            last = build.constant([-1])
            top = build.node("ReduceMax", scores, last, keepdims=1)
            numerator = build.node("Exp", build.node("Sub", scores, top))
            return build.node("Div", numerator, build.node("ReduceSum", numerator, last, keepdims=1))
        probabilities = build.node("Softmax", scores, axis=-1)
        if self.spelling == "sdpa" and self.mask != "none":
            hidden = build.node("IsNaN", probabilities)
            return build.node("Where", hidden, self.number(0.0), probabilities)
        return probabilities
