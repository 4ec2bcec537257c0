"""Whole artifacts in the emulator: what the recording driver launches is computed by it, in the module's own order.

recorder = emulating(sources_of(artifact), recorder, folder / "emulation")
recorder.redfuser("verify", artifact, "--model", model, "--device", "cuda")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from redfuser.artifact.manifest import read_manifest
from tests.codegen.gpu.whole.recording import Recorder
from tests.emulator.library import EmulationError, kernel_path, runtime_path
from tests.emulator.schedules import SCHEDULES, Schedule
from tests.emulator.source import Parameter, kernels


def sources_of(artifact: Path) -> list[str]:
    """The CUDA of all kernels of a folder that ``compile`` wrote."""
    return [path.read_text(encoding="utf-8") for path in sorted(artifact.glob("kernels/*/*.cu"))]


def emulating(
    sources: Sequence[str], recorder: Recorder, description: Path, schedule: Schedule = SCHEDULES[0]
) -> Recorder:
    """A recorder whose launches of these kernels compute.

    Args:
        sources: CUDA.
        description: file in which to write down which library holds which kernel.
        schedule: order of threads, blocks and arrivals.

    Raises:
        EmulationError: a kernel uses something that isn't emulated.
    """
    lines = [f"{runtime_path()} {' '.join(map(str, schedule.codes))}"]
    for source in sources:
        lines += _kernels(source)
    description.write_text("\n".join([*lines, ""]))
    return replace(recorder, emulation=description)


def differences(
    artifact: Path, model: Path, inputs: Path | None, recorder: Recorder, folder: Path, schedules: Sequence[Schedule]
) -> Iterator[str]:
    """What ``redfuser verify`` says against an artifact whose launches the emulator computes; nothing if all is well.

    Args:
        artifact: folder that ``compile`` wrote.
        model: what it was compiled from.
        inputs: arrays by input name; random ones otherwise.
        folder: where to write.
        schedules: orders of events, one after another.
    """
    given = ("--inputs", inputs) if inputs is not None else ()
    capability = int("".join(filter(str.isdigit, read_manifest(artifact).target.arch)))
    for schedule in schedules:
        try:
            emulator = emulating(sources_of(artifact), recorder, folder / "emulation", schedule)
        except EmulationError as error:
            yield f"not emulated: {error}"
            return
        command = ("verify", artifact, "--model", model, "--device", "cuda", "-q", *given)
        done = emulator.redfuser(*command, capability=capability)
        if done.code:
            yield f"emulated with {schedule}: {' '.join(done.output.split())}"


def _kernels(source: str) -> Iterator[str]:
    library = kernel_path(source)
    for entry, parameters in kernels(source).items():
        yield f"{entry} {library} {''.join(map(_kind, parameters))}"


def _kind(parameter: Parameter) -> str:
    return "p" if parameter.is_pointer else "v"
