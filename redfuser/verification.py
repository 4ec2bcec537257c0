"""Compare an artifact's numbers with ONNX Runtime and with float64, by the accuracy rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.errors import VerificationError
from redfuser.options import Progress

if TYPE_CHECKING:
    import numpy as np

    from redfuser.accuracy import Accuracy


@dataclass(frozen=True)
class OutputAccuracy:
    """How one output of the module compares."""

    name: str
    accuracy: Accuracy

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data; null where an error is infinite, as with a wrong shape."""
        figures = {f.name: getattr(self.accuracy, f.name) for f in fields(self.accuracy)}
        infinite = {name for name, value in figures.items() if isinstance(value, float) and not math.isfinite(value)}
        return {"name": self.name, **{name: None if name in infinite else value for name, value in figures.items()}}

    def __str__(self) -> str:
        return f"{self.name}: {self.accuracy}"


def compare_with_oracle(
    artifact: Path,
    model: Path,
    feeds: Mapping[str, np.ndarray],
    threads: int | None,
    progress: Progress,
    device: str | None = None,
) -> tuple[OutputAccuracy, ...]:
    """Run the module, ONNX Runtime and the graph in float64 on the same inputs.

    Args:
        artifact: folder that ``compile`` wrote.
        model: the ONNX file it was compiled from.
        feeds: an array for every input.
        threads: for the module and for ONNX Runtime; ``None`` means all cores.
        device: where the module runs; see :func:`redfuser.load`.

    Raises:
        VerificationError: the model isn't the one the artifact was compiled from.
        RedFuserError: the model or the artifact cannot be loaded, or an oracle cannot run.
    """
    from redfuser.accuracy import compare
    from redfuser.artifact.load import load
    from redfuser.frontend import load_model
    from redfuser.oracle import run_float64, run_onnxruntime

    progress.stage("load the artifact and the model")
    module = load(artifact, threads, device)
    loaded = load_model(model)
    if loaded.digest != module.manifest.model.sha256:
        raise VerificationError(
            f"{str(artifact)!r} was compiled from another model than {str(model)!r}",
            "give the very file it was compiled from, or compile again",
        )
    progress.stage("run the module")
    outputs = module(feeds)
    progress.stage("run ONNX Runtime")
    baseline: Mapping[str, np.ndarray] = {}
    try:
        baseline = run_onnxruntime(loaded.proto, feeds, threads)
    except VerificationError as refusal:
        progress.note(f"{refusal.message}; comparing with float64 alone")
    progress.stage("run the graph in float64")
    reference = run_float64(loaded.proto, feeds)
    return tuple(
        OutputAccuracy(
            spec.name, compare(outputs[spec.name], reference[spec.name], baseline.get(spec.name), spec.dtype)
        )
        for spec in module.outputs
    )
