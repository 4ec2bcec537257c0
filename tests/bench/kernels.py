"""Time fused kernels against the best of ONNX Runtime and PyTorch on the same inputs and threads.

    python -m tests.bench.kernels                       # every workload
    python -m tests.bench.kernels attention-512 softmax # some

Medians and the ratio of the best peer's are shown; above 1 the fused kernel is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redfuser.bench.timing import interleaved

Feeds = Mapping[str, np.ndarray]
Run = Callable[[], Any]

ROWS = '<ir_version: 8, opset_import: ["" : 18]>\n'


@dataclass(frozen=True)
class Workload:
    """A graph with one cascade, and how PyTorch computes it from the same inputs in order."""

    model: Callable[[], Any]
    torch: Callable[..., Any]


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


def rows(body: str, peer: Callable[..., Any], out: str = "4096,4096", more: str = "") -> Workload:
    """A function of each row of a 4096 by 4096 array, and of ``more`` inputs."""

    def model() -> Any:
        from onnx import parser

        return parser.parse_model(f"{ROWS}g (float[4096,4096] x{more}) => (float[{out}] y) {body}")

    def run(*inputs: Any) -> Any:
        import torch

        return peer(torch, *inputs)

    return Workload(model, run)


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


AXIS = "<int64[1] a = {-1}>"
WORKLOADS: dict[str, Workload] = {
    "attention-512": attention(512),
    "attention-2048": attention(2048),
    "attention-2048-causal": attention(2048, causal=True),
    "attention-512-d80": attention(512, head_dim=80),
    "attention-512-d96": attention(512, head_dim=96),
    "attention-512-d128": attention(512, head_dim=128),
    "decode-4096": attention(1, 4096),
    "routing-64-8": routing(4096, 64, 8),
    "routing-128-8": routing(4096, 128, 8),
    "routing-64-8-gate": routing(1024, 64, 8, hidden=2048),
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


def main() -> None:
    """Print one line a workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(WORKLOADS)}; all if none is given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    for name in arguments.names or WORKLOADS:
        times = measure(WORKLOADS[name], arguments.threads, arguments.rounds)
        medians = {side: statistics.median(taken) * 1e3 for side, taken in times.items()}
        ratio = min(value for side, value in medians.items() if side != "redfuser") / medians["redfuser"]
        figures = "  ".join(f"{side} {value:8.3f} ms" for side, value in medians.items())
        print(f"{name:22} {figures}  ratio {ratio:5.2f}", flush=True)


def measure(workload: Workload, threads: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of every call by side."""
    proto = workload.model()
    kernel, feeds = fused_kernel(proto)
    sides = {"redfuser": kernel, "onnxruntime": onnx_runtime(proto, feeds, threads)}
    sides |= pytorch(workload, feeds, threads)
    return interleaved(sides, rounds)


def fused_kernel(proto: Any) -> tuple[Run, Feeds]:
    """The kernel of the graph's only cascade, on random inputs; constants of the graph are inputs of the kernel."""
    import tvm

    from redfuser.codegen.backends import backend_for
    from redfuser.driver import analyze
    from redfuser.fusion import fuse
    from redfuser.options import CompileOptions, Silent
    from redfuser.targets import load_target

    options = CompileOptions(load_target("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        analysis = analyze(path, options, Silent())
    ((cascade, name),) = analysis.distinct().items()
    outcome = fuse(cascade, name, options, backend_for(options.target))
    if outcome.kernel is None:
        raise SystemExit(f"{name} isn't fused: {outcome.reason}")
    generator = np.random.default_rng(0)
    by_name = {
        f"input_{k}": generator.standard_normal(spec.shape, dtype=np.float32)
        for k, spec in enumerate(analysis.lowered.inputs)
    }
    names = next(iter(analysis.canonical.values())).inputs
    arguments = [tvm.runtime.tensor(_content(analysis.values[n], by_name, n)) for n in names]
    results = [tvm.runtime.tensor(np.zeros(o.tensor.shape, o.tensor.dtype)) for o in cascade.outputs]
    library = tvm.compile(tvm.IRModule({name: outcome.kernel.code}), target=tvm.target.Target(options.target.llvm()))
    function = library[name]
    feeds = {spec.name: by_name[f"input_{k}"] for k, spec in enumerate(analysis.lowered.inputs)}
    return (lambda: function(*arguments, *results)), feeds


def _content(value: Any, by_name: Feeds, name: str) -> np.ndarray:
    """What a kernel's input holds: a model input's array, or a constant's."""
    return by_name[name] if name in by_name else value.data.numpy()


def onnx_runtime(proto: Any, feeds: Feeds, threads: int) -> Run:
    """The graph in ONNX Runtime with all its optimisations, into memory that stays, as the kernel writes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for output, value in zip(session.get_outputs(), session.run(None, dict(feeds)), strict=True):
        kept = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        binding.bind_ortvalue_output(output.name, kept)
    return lambda: session.run_with_iobinding(binding)


def pytorch(workload: Workload, feeds: Feeds, threads: int) -> dict[str, Run]:
    """PyTorch, eager and compiled; nothing where it isn't installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tensors = [torch.from_numpy(value) for value in feeds.values()]
    compiled = torch.compile(workload.torch)
    return {"torch": lambda: workload.torch(*tensors), "torch.compile": lambda: compiled(*tensors)}


if __name__ == "__main__":
    main()
