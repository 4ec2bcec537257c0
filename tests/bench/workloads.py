"""The graphs that :mod:`tests.bench.kernels` times, and how PyTorch computes each from the same inputs in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Feeds = Mapping[str, np.ndarray]

OPSET = '<ir_version: 8, opset_import: ["" : 18]>\n'
AXIS = "<int64[1] a = {-1}>"


def random_feed(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Standard normal numbers, or every value of an integer type."""
    generator = np.random.default_rng(sum(map(ord, name)))
    if dtype == "float32":
        return generator.standard_normal(shape, dtype=np.float32)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max + 1, shape, dtype=dtype)


@dataclass(frozen=True)
class Workload:
    """A graph and its peer.

    Args:
        model: makes the graph.
        torch: the same in PyTorch, of the graph's inputs.
        feed: contents of an input by name, shape and element type.
        layer: the same as PyTorch's users would have it, with a layer made beforehand.
        dynamic: the same as ONNX Runtime's users would have it, as a graph of the same inputs.
    """

    model: Callable[[], Any]
    torch: Callable[..., Any]
    feed: Callable[[str, tuple[int, ...], str], np.ndarray] = random_feed
    layer: Callable[..., Any] | None = None
    dynamic: Callable[[], Any] | None = None


def parsed(text: str) -> Any:
    """A graph from ONNX's text form."""
    from onnx import parser

    return parser.parse_model(OPSET + text)


def attention(q_len: int, kv_len: int = 0, head_dim: int = 64, heads: int = 12, causal: bool = False) -> Workload:
    """``softmax(q·kᵀ/√d)·v``."""

    def model() -> Any:
        from models.attention import attention as build

        # The operator hides with -inf, as PyTorch does; a mask of large finite numbers is another function.
        spelling, mask = ("operator", "causal") if causal else ("eager", "none")
        shape = {"heads": heads, "q_len": q_len, "kv_len": kv_len or q_len, "head_dim": head_dim}
        return build(spelling, mask=mask, **shape)

    def peer(q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Workload(model, peer)


def masked_attention(length: int, table: bool, heads: int = 12, head_dim: int = 64) -> Workload:
    """Causal attention as most exporters write it, hiding with -3.4e38: a constant mask, or a table of booleans.

    Each row sees a key, so that PyTorch computes the same with a mask of its own.
    """

    def model() -> Any:
        from models.attention import attention as build

        mask = "boolean" if table else "causal"
        return build("eager", mask=mask, heads=heads, q_len=length, kv_len=length, head_dim=head_dim)

    def peer(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        import torch

        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=True) if mask is None else attend(q, k, v, attn_mask=mask)

    def feed(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.tri(length, dtype=np.bool_).reshape(shape) if name == "mask" else random_feed(name, shape, dtype)

    return Workload(model, peer, feed)


def latent_attention(kv_len: int) -> Workload:
    """DeepSeek-R1's decode: 128 heads on one latent head of 576, values of 512.

    PyTorch gets the heads as rows of one head, which it computes faster than 128 heads on repeated keys.
    """

    def model() -> Any:
        from models.attention import attention as build

        return build(heads=128, kv_heads=1, q_len=1, kv_len=kv_len, head_dim=576, value_dim=512)

    def peer(q: Any, k: Any, v: Any) -> Any:
        import torch

        rows = q.transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(rows, k, v).transpose(1, 2)

    return Workload(model, peer)


def padded_attention(length: int, hidden: float, heads: int = 12, head_dim: int = 64) -> Workload:
    """Attention with an additive mask of keys, an input of which the last third hides what is there."""
    shape = f"float[1,{heads},{length},{head_dim}]"
    text = f"""g ({shape} q, {shape} k, {shape} v, float[1,1,1,{length}] mask) => ({shape} y)
        <float s = {{{head_dim**-0.5}}}> {{
        t = Transpose<perm=[0,1,3,2]>(k)  p = MatMul(q, t)  z = Mul(p, s)  m = Add(z, mask)
        e = Softmax<axis=-1>(m)  y = MatMul(e, v) }}"""

    def peer(q: Any, k: Any, v: Any, mask: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def feed(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        if name != "mask":
            return random_feed(name, shape, dtype)
        seen = np.arange(length) < length - length // 3
        return np.where(seen, 0, hidden).astype(np.float32).reshape(shape)

    return Workload(lambda: parsed(text), peer, feed)


def rows(body: str, peer: Callable[..., Any], out: str = "4096,4096", more: str = "") -> Workload:
    """A function of each row of a 4096 by 4096 array, and of ``more`` inputs."""

    def run(*inputs: Any) -> Any:
        import torch

        return peer(torch, *inputs)

    return Workload(lambda: parsed(f"g (float[4096,4096] x{more}) => (float[{out}] y) {body}"), run)


def routing(tokens: int, experts: int, k: int, hidden: int = 0) -> Workload:
    """Softmax, top-k and renormalisation; of a token's features times a gate unless ``hidden`` is 0."""

    def model() -> Any:
        from models.routing import router

        return router(tokens, experts, k, hidden)

    def peer(x: Any, gate: Any = None) -> Any:
        import torch

        best, where = torch.topk(torch.softmax(x if gate is None else x @ gate, -1), k)
        return best / best.sum(-1, keepdim=True), where

    return Workload(model, peer)


def quantised(tokens: int, inner: int, columns: int) -> Workload:
    """Symmetric int8 quantisation of each row, an integer product, the scale back; the weight is an input."""

    def model() -> Any:
        from models.reductions import quantised_matmul

        return quantised_matmul(tokens, inner, columns)

    def peer(x: Any, w: Any) -> Any:
        from redfuser.artifact.runner.torch_peers import quantised_matmul

        return quantised_matmul(x, w)

    return Workload(model, peer)


def quantised_constant(tokens: int, inner: int, columns: int) -> Workload:
    """The same with a constant weight, against what quantises all rows by one scale too, which is less work."""

    def model() -> Any:
        from models.reductions import quantised_matmul

        return quantised_matmul(tokens, inner, columns, constant=True)

    def peer(x: Any) -> Any:
        from redfuser.artifact.runner.torch_peers import quantised_matmul_constant

        return quantised_matmul_constant(x, inner, columns)

    def layer(x: Any) -> Any:
        from redfuser.artifact.runner.torch_peers import quantised_linear

        return quantised_linear(x, inner, columns)

    def dynamic() -> Any:
        graph = parsed(f"""g (float[{tokens},{inner}] x) => (float[{tokens},{columns}] y) {{
            q, s, z = DynamicQuantizeLinear(x)  i = MatMulInteger(q, w, z)  f = Cast<to=1>(i)  y = Mul(f, s) }}""")
        graph.graph.initializer.extend(t for t in model().graph.initializer if t.name == "w")
        return graph

    return Workload(model, peer, layer=layer, dynamic=dynamic)


WORKLOADS: dict[str, Workload] = {
    "attention-512": attention(512),
    "attention-2048": attention(2048),
    "attention-2048-causal": attention(2048, causal=True),
    "attention-2048-causal-finite": masked_attention(2048, table=False),
    "attention-2048-causal-table": masked_attention(2048, table=True),
    "attention-512-d80": attention(512, head_dim=80),
    "attention-512-d96": attention(512, head_dim=96),
    "attention-512-d128": attention(512, head_dim=128),
    "attention-512-padded": padded_attention(512, float("-inf")),
    "attention-512-padded-finite": padded_attention(512, -3.4028234663852886e38),
    "decode-4096": attention(1, 4096),
    "latent-1024": latent_attention(1024),
    "latent-4096": latent_attention(4096),
    "routing-64-8": routing(4096, 64, 8),
    "routing-128-8": routing(4096, 128, 8),
    "routing-64-8-gate": routing(1024, 64, 8, hidden=2048),
    "routing-128-8-gate": routing(2048, 128, 8, hidden=2048),
    "routing-64-6-gate": routing(2048, 64, 6, hidden=2560),
    "int8-1024": quantised(1024, 1024, 1024),
    "int8-512-4096": quantised(512, 4096, 4096),
    "int8-128-4096-11008": quantised(128, 4096, 11008),
    "int8-1024-constant": quantised_constant(1024, 1024, 1024),
    "int8-512-4096-constant": quantised_constant(512, 4096, 4096),
    "int8-128-4096-11008-constant": quantised_constant(128, 4096, 11008),
    "softmax": rows("{ y = Softmax<axis=-1>(x) }", lambda t, x: t.softmax(x, -1)),
    "layer-norm": rows(
        "{ y = LayerNormalization<axis=-1>(x, gain, bias) }",
        lambda t, x, gain, bias: t.nn.functional.layer_norm(x, (4096,), gain, bias),
        more=", float[4096] gain, float[4096] bias",
    ),
    "variance": rows(
        f"{AXIS} {{ m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d) y = ReduceMean<keepdims=1>(q, a) }}",
        lambda t, x: t.var(x, -1, correction=0, keepdim=True),
        "4096,1",
    ),
    "logsumexp": rows(
        f"{AXIS} {{ m = ReduceMax<keepdims=1>(x, a)  s = Sub(x, m)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a) "
        "l = Log(t)  y = Add(l, m) }",
        lambda t, x: t.logsumexp(x, -1, keepdim=True),
        "4096,1",
    ),
}
