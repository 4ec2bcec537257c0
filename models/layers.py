"""Layers of transformers with random weights, node by node as PyTorch's exporter writes them."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from .builder import Builder, weights


class Layers:
    """Writes layers into a graph.

    Args:
        name: of the graph.
        size: sequences, and tokens of each.
        hidden: features of a token.
        heads: of an attention.
        epsilon: of the norms.
        seed: of the weights.
        dtype: of weights and features.

    Attributes:
        build: what the graph is written with.
    """

    def __init__(
        self,
        name: str,
        size: tuple[int, int],
        hidden: int,
        heads: int,
        epsilon: float,
        seed: int,
        dtype: str = "float32",
    ) -> None:
        self.build = Builder(name)
        self.batch, self.tokens = size
        self.hidden, self.heads, self.epsilon = hidden, heads, epsilon
        self.dtype = dtype
        self.generator = np.random.RandomState(seed)

    def weight(self, name: str, rows: int, columns: int) -> str:
        """A random matrix."""
        return self.build.constant(weights(self.generator, rows, columns), self.dtype, name)

    def vector(self, name: str, around: float = 0.0) -> str:
        """Random numbers near ``around``, one for each feature."""
        return self.build.constant(around + weights(self.generator, self.hidden) * 0.1, self.dtype, name)

    def number(self, value: float) -> str:
        """A scalar."""
        return self.build.constant(value, self.dtype)

    def positions(self) -> str:
        """The numbers of the tokens."""
        return self.build.constant(np.arange(self.tokens)[None])

    def norm(self, name: str, value: str) -> str:
        """LayerNormalization over the features."""
        scale, bias = self.vector(f"{name}.weight", 1.0), self.vector(f"{name}.bias")
        return self.build.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=self.epsilon)

    def linear(self, name: str, value: str, rows: int, columns: int) -> str:
        """``value·W + b`` as MatMul and Add."""
        product = self.build.node("MatMul", value, self.weight(f"{name}.weight", rows, columns))
        return self.build.node("Add", product, self._bias(name, columns))

    def gemm(self, name: str, value: str, rows: int, columns: int) -> str:
        """``value·W + b`` as Gemm over all tokens of the batch."""
        flat = self.build.node("Reshape", value, self.build.constant([-1, rows]), allowzero=1)
        weight = self.weight(f"{name}.weight", rows, columns)
        product = self.build.node("Gemm", flat, weight, self._bias(name, columns))
        size = self.build.constant([self.batch, self.tokens, columns])
        return self.build.node("Reshape", product, size, allowzero=1)

    def patches(self, image: str, patch: int) -> str:
        """An image in squares as tokens, after one that stands for the class; positions added."""
        build, hidden = self.build, self.hidden
        kernel = weights(self.generator, 3 * patch * patch, hidden).T.reshape(hidden, 3, patch, patch)
        squares, step = build.constant(kernel, self.dtype, "patches.weight"), [patch, patch]
        features = build.node("Conv", image, squares, self.vector("patches.bias"), kernel_shape=step, strides=step)
        size = build.constant([self.batch, hidden, self.tokens - 1])
        tokens = build.node("Transpose", build.node("Reshape", features, size, allowzero=1), perm=[0, 2, 1])
        first = np.broadcast_to(weights(self.generator, hidden), (self.batch, 1, hidden))
        joined = build.node("Concat", build.constant(first, self.dtype, "class_token"), tokens, axis=1)
        places = weights(self.generator, self.tokens, hidden)[None]
        return build.node("Add", joined, build.constant(places, self.dtype, "positions"))

    def mask_bias(self, mask: str, seen: np.ndarray | None = None) -> str:
        """0 where a key is a token, the least finite number where it is padding or hidden: [batch, 1, 1 or L, L].

        Args:
            mask: 1 for a token, 0 for padding.
            seen: which keys a query sees, all if not given; [1, 1, L, L].
        """
        build, batch, length = self.build, self.batch, self.tokens
        places = np.stack(np.meshgrid(np.arange(batch), np.arange(length), indexing="ij"), axis=-1)[:, None, None]
        kept = build.node("GatherND", build.node("Cast", mask, to=9), build.constant(places))
        seen = np.ones((1, 1, length, 1), np.bool_) if seen is None else seen
        both = build.node("And", build.constant(seen), kept)
        return build.node("Where", both, self.number(0.0), self.number(float(ml_dtypes.finfo(self.dtype).min)))

    def attention(self, query: str, key: str, value: str, size: tuple[int, ...], bias: str | None = None) -> str:
        """Scaled dot-product attention of features side by side, heads put side by side again in ``size``."""
        build, width = self.build, self.hidden // self.heads
        q, k, v = (self._heads(part) for part in (query, key, value))
        flat = build.node("Reshape", k, build.constant([-1, self.tokens, width]))
        turned = build.node("Transpose", flat, perm=[0, 2, 1])
        k = build.node("Reshape", turned, build.constant([self.batch, self.heads, width, self.tokens]))
        half = self.number(width**-0.25)
        scores = build.node("MatMul", build.node("Mul", q, half), build.node("Mul", k, half))
        if bias is None:
            probabilities = build.node("Softmax", scores, axis=-1)
        else:
            probabilities = build.node("Softmax", build.node("Add", scores, bias), axis=-1)
            unseen = build.node("IsNaN", probabilities)
            probabilities = build.node("Where", unseen, self.number(0.0), probabilities)
        context = build.node("Transpose", build.node("MatMul", probabilities, v), perm=[0, 2, 1, 3])
        return build.node("Reshape", context, build.constant(size), allowzero=1)

    def gelu(self, value: str) -> str:
        """``x·(1 + erf(x/√2))/2``."""
        build = self.build
        error = build.node("Erf", build.node("Div", value, self.number(math.sqrt(2))))
        half = build.node("Mul", self.number(0.5), build.node("Add", error, self.number(1.0)))
        return build.node("Mul", value, half)

    def gelu_tanh(self, value: str) -> str:
        """``x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2``."""
        build = self.build
        cube = build.node("Mul", build.node("Pow", value, self.number(3.0)), self.number(0.044715))
        inner = build.node("Mul", build.node("Add", value, cube), self.number(math.sqrt(2 / math.pi)))
        outer = build.node("Add", build.node("Tanh", inner), self.number(1.0))
        return build.node("Mul", build.node("Mul", value, self.number(0.5)), outer)

    def _heads(self, value: str) -> str:
        """[batch, L, features] as [batch, heads, L, features of a head]."""
        size = self.build.constant([self.batch, self.tokens, -1, self.hidden // self.heads])
        return self.build.node("Transpose", self.build.node("Reshape", value, size, allowzero=1), perm=[0, 2, 1, 3])

    def _bias(self, name: str, columns: int) -> str:
        return self.build.constant(weights(self.generator, columns) * 0.1, self.dtype, f"{name}.bias")
