"""Everything that can run a model, each as a function of nothing that runs it once on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from redfuser.artifact.runner.torch_peers import sides
from redfuser.bench.place import Place
from redfuser.bench.workload import Argument
from redfuser.oracle.survival import death_at_loading

if TYPE_CHECKING:
    from onnx import ModelProto

    from redfuser.signature import TensorSpec

Side = Callable[[], object]
Feeds = Mapping[str, np.ndarray[Any, Any]]

OURS, UNFUSED = "redfuser", "unfused"


def module(library: Path, inputs: tuple[TensorSpec, ...], feeds: Feeds, place: Place) -> Side:
    """A compiled module on tensors that are in place."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), place.device)
    arguments = [tvm.runtime.tensor(feeds[spec.name], place.device) for spec in inputs]
    return lambda: machine["main"](*arguments)


def onnx_runtime(proto: ModelProto, feeds: Feeds, threads: int) -> Side | None:
    """ONNX Runtime with all its optimisations, inputs and outputs bound; ``None`` where it isn't installed.

    Raises:
        RuntimeError: it can't run the model.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    content = proto.SerializeToString()
    if died := death_at_loading(content):
        raise RuntimeError(f"it dies of {died} when it loads the model")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for output, value in zip(session.get_outputs(), session.run(None, dict(feeds)), strict=True):
        binding.bind_ortvalue_output(output.name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    return lambda: session.run_with_iobinding(binding)


def torch_sides(name: str, arguments: Mapping[str, Argument], feeds: Feeds, place: Place) -> dict[str, Side]:
    """PyTorch's sides of a workload by name, and its first one compiled; none where it isn't installed.

    Raises:
        RuntimeError: PyTorch can't use the device.
    """
    try:
        import torch
    except ImportError:
        return {}
    if place.threads:
        torch.set_num_threads(place.threads)
    else:
        torch.set_float32_matmul_precision("high")  # TF32, as in the module
    tensors = [torch.from_numpy(value).to(place.torch) for value in feeds.values()]
    return sides(name, tensors, arguments)
