"""Read a model in a process of its own: what a hostile file breaks there is not ours.

The child loads, checks and normalises; what comes back is JSON and a normalised ONNX graph, never an object. A child
that takes too long, needs too much memory or crashes becomes an error that says so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from redfuser import errors
from redfuser.errors import MissingToolError, ModelError, RedFuserError
from redfuser.frontend.model import DEFAULT_LIMITS, MIB, LoadLimits, PreparedModel
from redfuser.frontend.reading.exchange import REPLY, REQUEST, Request, read_prepared
from redfuser.records import RecordError, encode, parse, to_text
from redfuser.signature import DimRange

#: What the child may say went wrong, by code.
_ERRORS: dict[str, type[RedFuserError]] = {
    kind.code: kind
    for kind in (
        errors.DynamicShapeError,
        errors.MissingToolError,
        errors.ModelError,
        errors.UnsafeModelError,
        errors.UnsupportedOperatorError,
        errors.UsageError,
    )
}


def prepare_file(
    path: Path,
    dims: Mapping[str, int | DimRange] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    limits: LoadLimits = DEFAULT_LIMITS,
    convolves_bytes: bool = False,
) -> PreparedModel:
    """:func:`redfuser.frontend.load_model` and :func:`redfuser.frontend.prepare`, in a child process.

    Args:
        path: an ``.onnx`` file.
        dims: extents of symbolic dimensions, or the ranges they stay symbolic over, by name.
        shapes: whole shapes of inputs, by input name.
        values: elements of inputs that become constants, by input name.
        limits: also on the time and the memory that it takes.
        convolves_bytes: whether convolutions of dequantised bytes become products of bytes.

    Raises:
        ModelError, UsageError, UnsupportedOperatorError: as these functions do; also over a limit, or after a crash.
        MissingToolError: no child process can run here, or the system ended it.
    """
    request = Request(
        str(path),
        dict(dims or {}),
        {name: tuple(map(int, shape)) for name, shape in (shapes or {}).items()},
        {name: tuple(elements) for name, elements in (values or {}).items()},
        limits,
        convolves_bytes,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="redfuser-") as name:
            folder = Path(name)
            (folder / REQUEST).write_text(to_text(encode(request)), encoding="utf-8")
            _require_success(path, limits, _run(limits, folder))
            _raise_refusal(folder)
            return read_prepared(folder, path)
    except (OSError, RecordError) as error:
        raise MissingToolError(f"the process that reads the model cannot be used: {error}") from error


def _run(limits: LoadLimits, folder: Path) -> int:
    """The exit status of a child that works in ``folder``; negative if a signal ended it.

    SIGXCPU is that of too much work (:func:`redfuser.frontend.reading.worker.confine`), SIGALRM stands for the end of
    our patience.
    """
    places = [place or os.getcwd() for place in sys.path]
    command = [sys.executable, "-P", "-m", "redfuser.frontend.reading.worker", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OPENBLAS_NUM_THREADS": "1"}
    silent = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, env=environment, stdin=silent, stdout=silent, stderr=silent, timeout=limits.patience, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM


def _require_success(path: Path, limits: LoadLimits, status: int) -> None:
    if status == 0:
        return
    if status == -signal.SIGXCPU:
        raise ModelError(
            f"reading {path} took more than {limits.seconds:g} seconds of a processor and was stopped",
            "the file is damaged or hostile, or this machine is too slow for it",
        )
    if status == -signal.SIGALRM:
        raise MissingToolError(
            f"reading {path} wasn't done after {limits.patience:g} seconds and was stopped",
            "this machine is too busy, or the disk that holds the file doesn't answer",
        )
    if status == -signal.SIGKILL:
        raise MissingToolError(
            f"the process that reads {path} was killed", "most likely the system ran out of memory: free some, or add"
        )
    if status < 0:
        raise ModelError(
            f"reading {path} crashed ({signal.Signals(-status).name})",
            f"the file is damaged or hostile, or needs more than {limits.memory() // MIB} MiB",
        )
    raise MissingToolError(
        f"the process that reads the model ended with status {status}", "redfuser doctor says what is missing"
    )


def _raise_refusal(folder: Path) -> None:
    """Raise what the child refused with, if it did."""
    reply = parse((folder / REPLY).read_text(encoding="utf-8"))
    if isinstance(reply, dict) and "code" in reply:
        kind = _ERRORS.get(str(reply["code"]), ModelError)
        raise kind(str(reply.get("message", "")), str(reply.get("hint", "")))
