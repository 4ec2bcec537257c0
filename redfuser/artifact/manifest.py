"""The manifest: what an artifact is, and the SHA-256 of every other file in it. Schema ``redfuser.artifact/1``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from redfuser.errors import UsageError, VerificationError
from redfuser.options import Fp32, Numerics
from redfuser.records import RecordError, decode, encode, parse, to_text
from redfuser.report.value import TargetInfo
from redfuser.signature import DimRange, DimSum, TensorSpec

SCHEMA: Literal["redfuser.artifact/1"] = "redfuser.artifact/1"
MANIFEST, MODULE, REPORT, LOCK, KERNELS = "manifest.json", "module.so", "report.json", "tuning.lock", "kernels"


@dataclass(frozen=True)
class ModelDigest:
    """File name without folder, and SHA-256, of the model compiled."""

    name: str
    sha256: str


@dataclass(frozen=True)
class OptionsRecord:
    """The options that shaped the artifact; the target stands beside them. See ``options.CompileOptions``."""

    dims: Mapping[str, int | DimRange]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, tuple[float, ...]]
    strict: bool
    numerics: Numerics
    seed: int
    threads: int | None
    fp32: Fp32 = "tf32"


@dataclass(frozen=True)
class FileRecord:
    """SHA-256 and size in bytes of one file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """No time stamps, no folder names: equal inputs give equal bytes.

    Args:
        schema: format version.
        model: what was compiled.
        target: what for.
        options: how.
        options_digest: ``CompileOptions.digest()``, the full target and the gates included.
        inputs: signature, in calling order.
        outputs: likewise.
        dims: range of each symbolic dimension that ``inputs`` names.
        sums: what those of them have to be that others decide.
        tools: versions by distribution.
        files: by path relative to the artifact, with ``/``.
    """

    schema: Literal["redfuser.artifact/1"]
    model: ModelDigest
    target: TargetInfo
    options: OptionsRecord
    options_digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: Mapping[str, DimRange]
    tools: Mapping[str, str]
    files: Mapping[str, FileRecord]
    sums: Mapping[str, DimSum] = field(default_factory=dict)

    def to_json(self) -> str:
        """The manifest as deterministic JSON text."""
        return to_text(encode(self))

    def __str__(self) -> str:
        lines = [f"artifact of {self.model.name} for {self.target.name}, {len(self.files)} files"]
        lines += [f"  input  {spec}" for spec in self.inputs]
        lines += [f"  output {spec}" for spec in self.outputs]
        lines += [f"  {name} from {bounds.low} to {bounds.high}" for name, bounds in self.dims.items()]
        lines += [f"  {name} = {total}" for name, total in self.sums.items()]
        return "\n".join(lines)


def hash_file(path: Path) -> FileRecord:
    """Digest and size of a file, read in pieces."""
    with path.open("rb") as file:
        return FileRecord(hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the artifact in ``folder``.

    Raises:
        UsageError: the folder isn't an artifact.
        VerificationError: its manifest cannot be read or is of another version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(
            f"{str(folder)!r} isn't a redfuser artifact: it has no {MANIFEST}", "give the output of compile"
        )
    try:
        data = parse(path.read_text(encoding="utf-8"))
        _check_schema(data)
        return decode(Manifest, data)
    except (OSError, UnicodeDecodeError, RecordError) as error:
        raise VerificationError(f"{str(path)!r} is damaged: {error}", "compile the model again") from error


def _check_schema(data: Any) -> None:
    # Before all else, so that a newer format is named as such and not as an unknown key.
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise RecordError(f"schema: {found!r} is not {SCHEMA!r}")


def is_artifact(folder: Path) -> bool:
    """Whether redfuser wrote this folder."""
    try:
        read_manifest(folder)
    except (UsageError, VerificationError):
        return False
    return True
