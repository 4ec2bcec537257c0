"""Whole transformers of public sizes with random weights, node by node as PyTorch's exporter writes them.

A smaller model comes by fewer layers, a narrower one by fewer hidden features and heads.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from .layers import Layers


def bert(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    batch: int = 1,
    tokens: int = 128,
    vocabulary: int = 30522,
    seed: int = 0,
    dtype: str = "float32",
) -> ModelProto:
    """BERT-base: token ids, types and a padding mask in, hidden states out; a norm after each half of a layer."""
    write = Layers("bert", (batch, tokens), hidden, heads, 1e-12, seed, dtype)
    build, size = write.build, (batch, tokens)
    ids, mask, types = (build.input(name, size, "int64") for name in ("input_ids", "attention_mask", "token_type_ids"))
    words = build.node("Gather", write.weight("embeddings.word", vocabulary, hidden), ids)
    state = build.node("Add", words, build.node("Gather", write.weight("embeddings.type", 2, hidden), types))
    position = build.node("Gather", write.weight("embeddings.position", 512, hidden), write.positions())
    state = write.norm("embeddings", build.node("Add", state, position))
    bias = write.mask_bias(mask)
    for number in range(layers):
        name = f"layer.{number}"
        query, key, value = (write.linear(f"{name}.{part}", state, hidden, hidden) for part in ("q", "k", "v"))
        context = write.attention(query, key, value, (batch, tokens, -1), bias)
        attended = write.linear(f"{name}.attention", context, hidden, hidden)
        state = write.norm(f"{name}.attention.norm", build.node("Add", attended, state))
        inner = write.gelu(write.linear(f"{name}.inner", state, hidden, 4 * hidden))
        state = write.norm(
            f"{name}.norm", build.node("Add", write.linear(f"{name}.outer", inner, 4 * hidden, hidden), state)
        )
    build.output(state, (batch, tokens, hidden), dtype, "last_hidden_state")
    return build.model()


def gpt2(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    batch: int = 1,
    tokens: int = 128,
    vocabulary: int = 50257,
    seed: int = 0,
    dtype: str = "float32",
) -> ModelProto:
    """GPT-2 small: token ids and a padding mask in, logits out; a norm before each half of a layer, a causal mask."""
    write = Layers("gpt2", (batch, tokens), hidden, heads, 1e-5, seed, dtype)
    build, size = write.build, (batch, tokens)
    ids, mask = (build.input(name, size, "int64") for name in ("input_ids", "attention_mask"))
    table = write.weight("wte", vocabulary, hidden)
    words = build.node("Gather", table, build.node("Reshape", ids, build.constant([-1, tokens]), allowzero=1))
    state = build.node("Add", words, build.node("Gather", write.weight("wpe", 1024, hidden), write.positions()))
    bias = write.mask_bias(mask, np.tri(tokens, dtype=np.bool_)[None, None])
    for number in range(layers):
        name = f"h.{number}"
        joined = write.gemm(f"{name}.attn.c_attn", write.norm(f"{name}.ln_1", state), hidden, 3 * hidden)
        query, key, value = build.nodes("Split", joined, outputs=3, axis=2, num_outputs=3)
        context = write.attention(query, key, value, (batch * tokens, hidden), bias)
        state = build.node("Add", write.gemm(f"{name}.attn.c_proj", context, hidden, hidden), state)
        inner = write.gemm(f"{name}.mlp.c_fc", write.norm(f"{name}.ln_2", state), hidden, 4 * hidden)
        outer = write.gemm(f"{name}.mlp.c_proj", write.gelu_tanh(inner), 4 * hidden, hidden)
        state = build.node("Add", state, outer)
    logits = build.node("MatMul", write.norm("ln_f", state), build.node("Transpose", table, perm=[1, 0]))
    build.output(logits, (batch, tokens, vocabulary), dtype, "logits")
    return build.model()


def vit(
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    batch: int = 1,
    pixels: int = 224,
    patch: int = 16,
    classes: int = 1000,
    seed: int = 0,
    dtype: str = "float32",
) -> ModelProto:
    """ViT-B/16: an image in, scores of classes out; patches by a convolution, a token of their own for the class."""
    tokens = (pixels // patch) ** 2 + 1
    write = Layers("vit", (batch, tokens), hidden, heads, 1e-12, seed, dtype)
    build = write.build
    image = build.input("pixel_values", (batch, 3, pixels, pixels), dtype)
    state = write.patches(image, patch)
    for number in range(layers):
        name = f"layer.{number}"
        normal = write.norm(f"{name}.before", state)
        query, key, value = (write.linear(f"{name}.{part}", normal, hidden, hidden) for part in ("q", "k", "v"))
        context = write.attention(query, key, value, (batch, tokens, -1))
        state = build.node("Add", write.linear(f"{name}.attention", context, hidden, hidden), state)
        inner = write.linear(f"{name}.fc1", write.norm(f"{name}.after", state), hidden, 4 * hidden)
        state = build.node("Add", write.linear(f"{name}.fc2", write.gelu(inner), 4 * hidden, hidden), state)
    first = build.node("Gather", write.norm("norm", state), build.constant(0), axis=1)
    build.output(write.linear("classifier", first, hidden, classes), (batch, classes), dtype, "logits")
    return build.model()
