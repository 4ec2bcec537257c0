"""A two-layer BERT with random weights, small enough to keep in the repository.

``python -m models.tiny_bert`` writes ``models/tiny_bert.onnx``, bit for bit the file that is committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from .builder import Builder, weights

PATH = Path(__file__).with_suffix(".onnx")


@dataclass(frozen=True)
class BertShape:
    """Sizes of the model.

    Args:
        symbolic: batch and length are named dimensions; ``length`` is then the number of position embeddings.
    """

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    inner: int = 128
    vocabulary: int = 200
    batch: int = 1
    length: int = 32
    symbolic: bool = False

    @property
    def tokens(self) -> tuple[int | str, int | str]:
        """Shape of the token ids."""
        return ("batch", "length") if self.symbolic else (self.batch, self.length)

    @property
    def same_tokens(self) -> tuple[int, int]:
        """The first two extents of a Reshape that keeps them."""
        return (0, 0) if self.symbolic else (self.batch, self.length)


class _Bert:
    """Writes the model layer by layer."""

    def __init__(self, shape: BertShape, seed: int) -> None:
        self.shape = shape
        self.generator = np.random.RandomState(seed)
        self.build = Builder("tiny_bert")

    def write(self) -> ModelProto:
        """Token ids and a padding mask in, hidden states out."""
        shape, build = self.shape, self.build
        size = shape.tokens
        ids = build.input("input_ids", size, "int64")
        mask = build.input("attention_mask", size, "int64")
        words = build.node("Gather", self.weight("word_embeddings", shape.vocabulary, shape.hidden), ids)
        positions = self.weight("position_embeddings", shape.length, shape.hidden)
        if shape.symbolic:
            length = build.node("Shape", ids, start=1, end=2)
            positions = build.node("Slice", positions, build.constant([0]), length, build.constant([0]))
        hidden = self.norm("embeddings", build.node("Add", words, positions))
        bias = self.mask_bias(mask)
        for layer in range(shape.layers):
            hidden = self.layer(f"layer.{layer}", hidden, bias)
        build.output(hidden, (*size, shape.hidden), name="last_hidden_state")
        return build.model()

    def mask_bias(self, mask: str) -> str:
        """0 for a token, the least finite number for padding: [batch, 1, 1, length]."""
        build = self.build
        kept = build.node("Cast", mask, to=1)
        hidden = build.node("Sub", build.constant(1.0, "float32"), kept)
        scaled = build.node("Mul", hidden, build.constant(float(np.finfo(np.float32).min), "float32"))
        return build.node("Unsqueeze", scaled, build.constant([1, 2]))

    def layer(self, name: str, hidden: str, bias: str) -> str:
        """Self-attention, then the feed-forward part; each with a residual and a norm after it."""
        build = self.build
        attended = self.linear(f"{name}.attention.output", self.attention(name, hidden, bias), self.shape.hidden)
        hidden = self.norm(f"{name}.attention", build.node("Add", attended, hidden))
        inner = self.gelu(self.linear(f"{name}.intermediate", hidden, self.shape.inner))
        outer = self.linear(f"{name}.output", inner, self.shape.hidden, rows=self.shape.inner)
        return self.norm(name, build.node("Add", outer, hidden))

    def attention(self, name: str, hidden: str, bias: str) -> str:
        """``softmax(Q·Kᵀ/√d + bias)·V`` over all heads."""
        build, shape = self.build, self.shape
        query, key, value = (
            self.heads(self.linear(f"{name}.attention.{part}", hidden, shape.hidden), order)
            for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scale = build.constant(math.sqrt(shape.hidden // shape.heads), "float32")
        scores = build.node("Div", build.node("MatMul", query, key), scale)
        probabilities = build.node(
            "Softmax", build.node("Add", scores, bias), axis=-1, name=f"{name}.attention.softmax"
        )
        context = build.node("MatMul", probabilities, value)
        size = (*shape.same_tokens, shape.hidden)
        return build.node("Reshape", build.node("Transpose", context, perm=[0, 2, 1, 3]), build.constant(size))

    def heads(self, value: str, order: list[int]) -> str:
        """[batch, length, hidden] as [batch, length, heads, d], transposed."""
        shape = self.shape
        size = (*shape.same_tokens, shape.heads, shape.hidden // shape.heads)
        return self.build.node("Transpose", self.build.node("Reshape", value, self.build.constant(size)), perm=order)

    def linear(self, name: str, value: str, columns: int, rows: int | None = None) -> str:
        """``value·W + b``."""
        product = self.build.node("MatMul", value, self.weight(f"{name}.weight", rows or self.shape.hidden, columns))
        bias = self.build.constant(weights(self.generator, columns) * 0.1, "float32", f"{name}.bias")
        return self.build.node("Add", product, bias)

    def gelu(self, value: str) -> str:
        """``x·(1 + erf(x/√2))/2``, as exporters spell it."""
        build = self.build
        error = build.node("Erf", build.node("Div", value, build.constant(math.sqrt(2), "float32")))
        sum_ = build.node("Add", error, build.constant(1.0, "float32"))
        return build.node("Mul", build.node("Mul", value, sum_), build.constant(0.5, "float32"))

    def norm(self, name: str, value: str) -> str:
        """LayerNormalization with weights around one."""
        columns = self.shape.hidden
        scale = self.build.constant(1 + weights(self.generator, columns) * 0.1, "float32", f"{name}.norm.weight")
        bias = self.build.constant(weights(self.generator, columns) * 0.1, "float32", f"{name}.norm.bias")
        return self.build.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=1e-12, name=f"{name}.norm")

    def weight(self, name: str, rows: int, columns: int) -> str:
        """A random matrix."""
        return self.build.constant(weights(self.generator, rows, columns), name=name)


def tiny_bert(shape: BertShape | None = None, seed: int = 0) -> ModelProto:
    """The model, with sizes of one's own if wished."""
    return _Bert(shape or BertShape(), seed).write()


def serialised() -> bytes:
    """The bytes of ``tiny_bert.onnx``."""
    return tiny_bert().SerializeToString(deterministic=True)


if __name__ == "__main__":
    PATH.write_bytes(serialised())
