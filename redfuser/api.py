"""The library's own entry points: compile a model into an artifact, analyze one. ``redfuser.compile`` and so on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.errors import ModelError
from redfuser.options import CompileOptions, Numerics
from redfuser.parsing import parse_gates
from redfuser.paths import path_of
from redfuser.progress import Progress, Silent
from redfuser.targets import Target, load_target

if TYPE_CHECKING:
    from redfuser.artifact.load import LoadedModel
    from redfuser.artifact.manifest import Manifest
    from redfuser.report.value import FusionReport


@dataclass(frozen=True)
class Artifact:
    """What ``compile`` wrote: the folder, its manifest, its report."""

    path: Path
    manifest: Manifest
    report: FusionReport

    def load(self, threads: int | None = None, device: str | None = None) -> LoadedModel:
        """The module, ready to run. See :func:`redfuser.load`."""
        from redfuser.artifact.load import load

        return load(self.path, threads, device)


def compile(
    model: str | Path,
    target: str | Target = "cpu",
    output: str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    strict: bool = False,
    numerics: Numerics = "exact",
    require_fused: Iterable[str] = (),
    fail_on_missed: bool = False,
    seed: int = 0,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Artifact:
    """Compile an ONNX model and write the artifact.

    Args:
        model: an ``.onnx`` file.
        target: a name from ``redfuser targets``, a ``.toml`` description, or a target.
        output: folder to write; ``MODEL.redfuser`` beside the model if not given.
        require_fused: gates such as ``"attention>=12"``.
        force: replace an existing artifact.
        progress: told what is going on.

    The remaining arguments are those of :class:`redfuser.options.CompileOptions`.

    Raises:
        RedFuserError: one of its subclasses; nothing is written then.
    """
    options = CompileOptions(
        target=load_target(target) if isinstance(target, str) else target,
        dims=dict(dims or {}),
        shapes=dict(shapes or {}),
        values={name: tuple(elements) for name, elements in (values or {}).items()},
        strict=strict,
        numerics=numerics,
        require_fused=parse_gates(require_fused),
        fail_on_missed=fail_on_missed,
        seed=seed,
        threads=threads,
    )
    file = path_of(model)
    place = path_of(output) if output is not None else default_output(file)
    return compile_to_folder(file, options, place, force=force, progress=progress or Silent())


def analyze(
    model: str | Path,
    target: str | Target = "cpu",
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    numerics: Numerics = "exact",
    progress: Progress | None = None,
) -> FusionReport:
    """Detection and algebra only: what would be fused, and why the rest would not. Nothing is written.

    Raises:
        RedFuserError: one of its subclasses.
    """
    from redfuser.driver import analyze_model

    options = CompileOptions(
        target=load_target(target) if isinstance(target, str) else target,
        dims=dict(dims or {}),
        shapes=dict(shapes or {}),
        values={name: tuple(elements) for name, elements in (values or {}).items()},
        numerics=numerics,
    )
    return analyze_model(path_of(model), options, progress or Silent())


def compile_to_folder(
    model: Path,
    options: CompileOptions,
    output: Path,
    *,
    force: bool,
    progress: Progress,
    dump: Path | None = None,
) -> Artifact:
    """Compile, check the gates, write. The output is checked before any work and once more at the end.

    Args:
        dump: folder that gets one text file a stage, whether or not a gate holds.

    Raises:
        RedFuserError: one of its subclasses; no artifact is written then.
    """
    from redfuser.artifact.write import check_output, write_artifact, write_dump
    from redfuser.driver import compile_model
    from redfuser.report.gates import check_gates

    check_output(output, force)
    compiled = compile_model(model, options, progress)
    if dump is not None:
        write_dump(compiled.dump, dump)
    check_gates(compiled.report, options)
    progress.stage("write the artifact")
    manifest = write_artifact(compiled, options, output, force)
    return Artifact(output, manifest, compiled.report)


def default_output(model: Path) -> Path:
    """``MODEL.redfuser`` beside the model: ``bert.onnx`` gives ``bert.redfuser``.

    Raises:
        ModelError: see :func:`beside`.
    """
    return beside(model, ".redfuser")


def beside(model: Path, suffix: str) -> Path:
    """What is written beside a model unless told otherwise; ``.onnx`` gives way to the suffix, anything else stays.

    Raises:
        ModelError: the path cannot be a file's.
    """
    if not model.name:
        raise ModelError(f"{str(model)!r} is not a file", "give the path of an .onnx file")
    return model.with_suffix(suffix) if model.suffix == ".onnx" else model.with_name(f"{model.name}{suffix}")
