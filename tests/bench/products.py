"""Time matrix products with constant weights against PyTorch (MKL) and ONNX Runtime on the same threads.

python -m tests.bench.products                      # the shapes of MiniLM and 1024 × 1024 × 1024
python -m tests.bench.products 1x4096x4096          # rows × columns × summands
python -m tests.bench.products --dtype bfloat16     # which ONNX Runtime doesn't multiply on CPUs
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np

from redfuser.bench.timing import interleaved
from redfuser.expr.evaluate import numpy_dtype
from redfuser.machine.threads import use_threads

SHAPES = ("1024x1024x1024", "128x384x384", "128x1536x384", "128x384x1536", "1x4096x4096")


def main() -> None:
    """Time each shape, print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    for shape in arguments.shapes:
        rows, columns, depth = map(int, shape.split("x"))
        rng = np.random.default_rng(0)
        shapes, dtype = ((rows, depth), (depth, columns)), numpy_dtype(arguments.dtype)
        x, weight = (rng.standard_normal(s, dtype="float32").astype(dtype) for s in shapes)
        sides = {"redfuser": ours(x, weight), "torch": torch(x, weight, arguments.threads)}
        if arguments.dtype == "float32":
            sides["onnxruntime"] = onnxruntime(x, weight, arguments.threads)
        taken = {side: statistics.median(t) for side, t in interleaved(sides, arguments.rounds).items()}
        rates = ", ".join(f"{side} {2e-9 * rows * columns * depth / t:.0f} GF/s" for side, t in taken.items())
        best = min(time for side, time in taken.items() if side != "redfuser")
        print(f"{shape}: {rates}; {best / taken['redfuser']:.2f} times the best peer")


def ours(x: np.ndarray, weight: np.ndarray) -> Callable[[], object]:
    """The product as it is compiled into a model."""
    import tvm
    from tvm import relax
    from tvm.script import relax as R

    from redfuser.codegen.cpu.module import assemble
    from redfuser.targets import CpuTarget, load_target
    from tests.codegen.cpu.build import legalised, opened

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    variable = relax.Var("x", R.Tensor(x.shape, str(x.dtype)))
    module = legalised([variable], lambda: relax.op.matmul(variable, relax.const(weight)))
    machine = opened(assemble(module, [], target))
    argument = tvm.runtime.tensor(x)
    exact, rounding = x.astype("f8") @ weight.astype("f8"), 1e-3 if x.dtype == np.float32 else 2**-7
    np.testing.assert_allclose(machine["main"](argument).numpy().astype("f8"), exact, rtol=rounding, atol=1e-3)
    return lambda: machine["main"](argument)


def torch(x: np.ndarray, weight: np.ndarray, threads: int) -> Callable[[], object]:
    """``torch.mm`` of a weight in memory of PyTorch's: NumPy asks for huge pages, which no side's own memory has."""
    import torch

    torch.set_num_threads(threads)
    kind = getattr(torch, str(x.dtype))
    left, right = (torch.from_numpy(factor.astype("f4")).to(kind, copy=True) for factor in (x, weight))
    return lambda: torch.mm(left, right)


def onnxruntime(x: np.ndarray, weight: np.ndarray, threads: int) -> Callable[[], object]:
    """A MatMul node whose weight is an initializer, which ONNX Runtime packs too."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    shapes = {"x": list(x.shape), "y": [x.shape[0], weight.shape[1]]}
    x_info, y_info = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [x_info], [y_info], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


if __name__ == "__main__":
    main()
