"""Compare an artifact's numbers with ONNX Runtime and with float64, by the accuracy rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.errors import VerificationError
from redfuser.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from redfuser.accuracy import Accuracy
    from redfuser.artifact.load import LoadedModel

    Sample = tuple[Mapping[str, int], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class OutputAccuracy:
    """How one output of the module compares, where the symbolic dimensions had these sizes."""

    name: str
    accuracy: Accuracy
    sizes: Mapping[str, int] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; null where an error is infinite, as with a wrong shape."""
        figures = {f.name: getattr(self.accuracy, f.name) for f in fields(self.accuracy)}
        infinite = {name for name, value in figures.items() if isinstance(value, float) and not math.isfinite(value)}
        finite = {name: None if name in infinite else value for name, value in figures.items()}
        return {"name": self.name, **({"sizes": dict(self.sizes)} if self.sizes else {}), **finite}

    def __str__(self) -> str:
        at = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.name}{f' ({at})' if at else ''}: {self.accuracy}"


def compare_with_oracle(
    artifact: Path,
    model: Path,
    samples: Sequence[Sample],
    threads: int | None,
    progress: Progress,
    device: str | None = None,
) -> tuple[OutputAccuracy, ...]:
    """Run the module, ONNX Runtime and the graph in float64 on the same inputs.

    Args:
        artifact: folder that ``compile`` wrote.
        model: the ONNX file it was compiled from.
        samples: sizes of the symbolic dimensions, and an array for every input.
        threads: for the module and for ONNX Runtime; ``None`` means all cores.
        device: where the module runs; see :func:`redfuser.load`.

    Raises:
        VerificationError: the model isn't the one the artifact was compiled from.
        RedFuserError: the model or the artifact cannot be loaded, or an oracle cannot run.
    """
    from redfuser.artifact.load import load
    from redfuser.frontend import load_model
    from redfuser.frontend.fixing import fix_inputs
    from redfuser.oracle.run import require_loadable

    progress.stage("load the artifact and the model")
    module = load(artifact, threads, device)
    loaded = load_model(model)
    if loaded.digest != module.manifest.model.sha256:
        raise VerificationError(
            f"{str(artifact)!r} was compiled from another model than {str(model)!r}",
            "give the very file it was compiled from, or compile again",
        )
    proto = fix_inputs(loaded.proto, module.manifest.options.values)
    progress.stage("load the model into ONNX Runtime")
    asks_runtime = True
    try:
        require_loadable(proto)
    except VerificationError as refusal:
        asks_runtime = False
        progress.note(f"{refusal.message}; comparing with float64 alone")
    compared: list[OutputAccuracy] = []
    for sizes, feeds in samples:
        compared += _compare(module, proto, feeds, sizes, threads, progress, asks_runtime)
    return tuple(compared)


def _compare(
    module: LoadedModel,
    proto: ModelProto,
    feeds: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    threads: int | None,
    progress: Progress,
    asks_runtime: bool,
) -> Iterator[OutputAccuracy]:
    from redfuser.accuracy import compare
    from redfuser.oracle.run import run_float64, run_onnxruntime, run_rounded

    where = f" for {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""
    progress.stage(f"run the module{where}")
    outputs = module(feeds)
    baseline: Mapping[str, np.ndarray] = {}
    try:
        if asks_runtime:
            progress.stage("run ONNX Runtime")
            baseline = run_onnxruntime(proto, feeds, threads)
    except VerificationError as refusal:
        progress.note(f"{refusal.message}; comparing with float64 alone")
    progress.stage("run the graph in float64")
    reference = run_float64(proto, feeds)
    manifest = module.manifest
    rounds = manifest.target.kind == "gpu" and manifest.options.fp32 == "tf32"
    rules = {spec.name: "tf32" if rounds and spec.dtype == "float32" else spec.dtype for spec in module.outputs}

    def judge(baseline: Mapping[str, np.ndarray]) -> dict[str, Accuracy]:
        return {name: compare(outputs[name], reference[name], baseline.get(name), rules[name]) for name in rules}

    accuracies = judge(baseline)
    if not all(accuracy.passed for accuracy in accuracies.values()) and _rounds_to_half(proto):
        progress.stage("run the graph with every rounding to half precision")
        with suppress(VerificationError):
            rounded = judge(run_rounded(proto, feeds))
            accuracies = {name: found if found.passed else rounded[name] for name, found in accuracies.items()}
    for name, accuracy in accuracies.items():
        yield OutputAccuracy(name, accuracy, sizes)


def _rounds_to_half(proto: ModelProto) -> bool:
    """Whether a value of the model may have 16 bits: ONNX Runtime may then have left out a rounding."""
    from onnx import TensorProto

    from redfuser.frontend.reading.walk import nodes_of

    half = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    casts = (attribute.i for node in nodes_of(proto) for attribute in node.attribute if attribute.name == "to")
    types = (value.type.tensor_type.elem_type for value in proto.graph.input)
    return any(kind in half for kind in chain(types, casts))
