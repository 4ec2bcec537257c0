"""The workloads in PyTorch: each takes the ONNX graph's inputs in order. Imports torch inside only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

Peer = Callable[..., Any]


def attention(q: Any, k: Any, v: Any) -> Any:
    """Spelled out; grouped heads are expanded."""
    k, v = _grouped(q, k), _grouped(q, v)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


def sdpa(q: Any, k: Any, v: Any) -> Any:
    """By the operator that is made for it."""
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, _grouped(q, k), _grouped(q, v))


def causal(q: Any, k: Any, v: Any) -> Any:
    """Spelled out, with a mask."""
    import torch

    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def sdpa_causal(q: Any, k: Any, v: Any) -> Any:
    """By the operator that is made for it."""
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def routing(x: Any, gate: Any, k: int) -> tuple[Any, Any]:
    """Softmax of the logits, the best k, renormalised."""
    best, chosen = (x @ gate).softmax(-1).topk(k, -1)
    return best / best.sum(-1, keepdim=True), chosen


def quantised_matmul(x: Any, w: Any) -> Any:
    """Per-row int8 quantisation, an integer product, the scale back."""
    import torch

    scale = x.abs().amax(-1, keepdim=True) / 127
    quantised = (x / scale).round().clamp(-127, 127).to(torch.int8)
    return torch._int_mm(quantised, w).float() * scale


def quantised_matmul_constant(x: Any, inner: int, columns: int) -> Any:
    """The same with a weight that is part of the graph."""
    return quantised_matmul(x, _weight(inner, columns, x.device))


def quantised_linear(x: Any, inner: int, columns: int) -> Any:
    """By the layer that is made for such a weight and packs it beforehand; one scale for all rows."""
    return _linear(inner, columns)(x)


@cache
def _weight(inner: int, columns: int, device: Any = "cpu") -> Any:
    """The weight, as the graph's builder draws it."""
    import numpy as np
    import torch

    return torch.from_numpy(np.random.RandomState(0).randint(-127, 128, (inner, columns), np.int8)).to(device)


@cache
def _linear(inner: int, columns: int) -> Any:
    import torch

    torch.backends.quantized.engine = "onednn"
    layer = torch.ao.nn.quantized.dynamic.Linear(inner, columns, bias_=False)
    rows = _weight(inner, columns).t().contiguous()
    layer.set_weight_bias(torch._make_per_tensor_quantized_tensor(rows, 1.0, 0), None)
    return layer


def variance(x: Any) -> Any:
    """Of each row."""
    import torch

    return torch.var(x, -1, correction=0, keepdim=True)


def inertia(mass: Any, x: Any, y: Any) -> Any:
    """About the centre of mass, of each row."""
    total = mass.sum(-1, keepdim=True)
    dx = x - (mass * x).sum(-1, keepdim=True) / total
    dy = y - (mass * y).sum(-1, keepdim=True) / total
    return (mass * (dx * dx + dy * dy)).sum(-1, keepdim=True)


def softmax(x: Any) -> Any:
    """Of each row."""
    return x.softmax(-1)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Of each row."""
    import torch

    return torch.nn.functional.layer_norm(x, scale.shape, scale, bias)


def logsumexp(x: Any) -> Any:
    """Of each row."""
    return x.logsumexp(-1, keepdim=True)


def _grouped(q: Any, shared: Any) -> Any:
    return shared.repeat_interleave(q.shape[1] // shared.shape[1], 1)


#: name in a workload file -> side -> function; a side is added for each, and one for the first compiled.
PEERS: Mapping[str, Mapping[str, Peer]] = {
    "attention": {"torch": attention, "torch sdpa": sdpa},
    "causal": {"torch": causal, "torch sdpa": sdpa_causal},
    "routing": {"torch": routing},
    "quantised_matmul": {"torch": quantised_matmul},
    "quantised_matmul_constant": {"torch": quantised_matmul_constant, "torch quantised linear": quantised_linear},
    "variance": {"torch": variance},
    "inertia": {"torch": inertia},
    "softmax": {"torch": softmax},
    "layer_norm": {"torch": layer_norm},
    "logsumexp": {"torch": logsumexp},
}


def sides(name: str, tensors: Sequence[Any], arguments: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """What there is of a workload, as functions of nothing: each function, and the first one compiled.

    Args:
        name: one of :data:`PEERS`.
        tensors: PyTorch's, in the order of the graph's inputs.
        arguments: of the workload, some of which a function takes.
    """
    import torch

    found: dict[str, Callable[[], object]] = {}
    for side, function in PEERS[name].items():
        taken = inspect.signature(function).parameters
        extra = {key: value for key, value in arguments.items() if key in taken}
        found[side] = _call(function, tensors, extra)
        if len(found) == 1:
            found["torch.compile"] = _call(torch.compile(function), tensors, extra)
    return found


def _call(function: Peer, tensors: Sequence[Any], extra: Mapping[str, Any]) -> Callable[[], object]:
    import torch

    def run() -> object:
        with torch.inference_mode():
            return function(*tensors, **extra)

    return run
