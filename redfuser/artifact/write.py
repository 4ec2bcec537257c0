"""Write an artifact all at once: built beside its place, renamed into it at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from redfuser.artifact.contents import CompiledModule
from redfuser.artifact.manifest import (
    KERNELS,
    LOCK,
    MANIFEST,
    MODULE,
    REPORT,
    SCHEMA,
    FileRecord,
    Manifest,
    ModelDigest,
    OptionsRecord,
    hash_file,
    is_artifact,
)
from redfuser.errors import OutputError
from redfuser.machine.versions import tool_versions
from redfuser.options import CompileOptions


def check_output(output: Path, force: bool) -> None:
    """Refuse an output folder before any work is done.

    Raises:
        OutputError: the parent is missing or cannot be written, or ``output`` exists and may not be replaced:
            an artifact is replaced only with ``force``, an empty folder always, anything else never.
    """
    parent = output.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"the folder {str(parent)!r} doesn't exist", "create it, or choose another place with -o")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {str(parent)!r} cannot be written", "choose another place with -o")
    if not os.path.lexists(output):
        return
    if output.is_symlink() or not output.is_dir():
        raise OutputError(f"{str(output)!r} exists and isn't a folder", "choose another place with -o")
    if not any(output.iterdir()):
        return
    if not is_artifact(output):
        raise OutputError(
            f"{str(output)!r} exists and isn't a redfuser artifact, so it won't be replaced",
            "choose another place with -o, or remove it yourself",
        )
    if not force:
        raise OutputError(f"{str(output)!r} exists", "replace it with --force, or choose another place with -o")


def write_artifact(compiled: CompiledModule, options: CompileOptions, output: Path, force: bool = False) -> Manifest:
    """Write the artifact folder and return its manifest. On failure nothing is left and an old artifact stays.

    Raises:
        OutputError: see :func:`check_output`; also when the disk refuses.
    """
    check_output(output, force)
    try:
        with _scratch_folder(output) as scratch:
            compiled.module_writer(scratch / MODULE)
            _write_texts(scratch, _texts(compiled))
            manifest = _manifest(compiled, options, scratch)
            _write_texts(scratch, {MANIFEST: manifest.to_json()})
            check_output(output, force)  # another compile may have written there meanwhile
            _move_into_place(scratch, output)
    except OSError as error:
        raise OutputError(
            f"cannot write {str(output)!r}: {error.strerror or error}", "choose another place with -o"
        ) from error
    return manifest


def write_dump(dump: Mapping[str, object], folder: Path) -> None:
    """Write one text file a stage.

    Raises:
        OutputError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_texts(folder, {f"{i:02}-{stage}.txt": f"{value}\n" for i, (stage, value) in enumerate(dump.items())})
    except OSError as error:
        raise OutputError(f"cannot write the dump to {str(folder)!r}: {error.strerror or error}") from error


def files_below(folder: Path) -> Iterator[str]:
    """Relative paths, with ``/``, of everything below a folder that isn't itself a real folder; sorted."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _texts(compiled: CompiledModule) -> dict[str, str]:
    texts = {REPORT: compiled.report.to_json(), LOCK: compiled.tuning_lock}
    for kernel in compiled.kernels:
        texts |= {f"{KERNELS}/{kernel.name}/{name}": text for name, text in kernel.files.items()}
    return texts


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def _manifest(compiled: CompiledModule, options: CompileOptions, folder: Path) -> Manifest:
    files: dict[str, FileRecord] = {name: hash_file(folder / name) for name in files_below(folder)}
    return Manifest(
        schema=SCHEMA,
        model=ModelDigest(compiled.report.model.name, compiled.report.model.sha256),
        target=compiled.report.target,
        options=OptionsRecord(
            options.dims,
            options.shapes,
            options.values,
            options.strict,
            options.numerics,
            options.seed,
            options.threads,
            options.fp32,
        ),
        options_digest=options.digest(),
        inputs=compiled.inputs,
        outputs=compiled.outputs,
        dims=compiled.dims,
        sums=compiled.sums,
        tools=tool_versions(compiled.report.target.kind),
        files=files,
    )


@contextmanager
def _scratch_folder(output: Path) -> Iterator[Path]:
    """A folder beside the output, on the same file system; removed unless it was renamed away."""
    place = output.absolute()
    scratch = Path(tempfile.mkdtemp(prefix=f".{place.name[:64]}.", suffix=".partial", dir=place.parent))
    try:
        scratch.chmod(0o777 & ~_umask())
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _move_into_place(scratch: Path, output: Path) -> None:
    """Rename; an old artifact is set aside first and comes back if the rename fails."""
    if not output.is_dir() or not any(output.iterdir()):
        scratch.rename(output)
        return
    with _scratch_folder(output) as aside:
        old = aside / "old"
        output.rename(old)
        try:
            scratch.rename(output)
        except BaseException:
            old.rename(output)
            raise
