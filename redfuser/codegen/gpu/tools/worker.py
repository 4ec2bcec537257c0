"""Talks to the worker process that holds TileLang; starts it, watches over it, starts it again."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any

from redfuser.codegen.gpu.emission.script import Script
from redfuser.codegen.gpu.tools.toolkit import MEND
from redfuser.codegen.gpu.value import Count, TensorMap
from redfuser.codegen.refusal import Refused
from redfuser.errors import MissingToolError
from redfuser.records import decode

SERVICE = (sys.executable, "-m", "redfuser.codegen.gpu.tools.service")


@dataclass(frozen=True)
class Limits:
    """What one script may take.

    Args:
        start_s: until the process is ready.
        seconds: for one script.
        memory_bytes: address space of the process.
    """

    start_s: float = 120.0
    seconds: float = 180.0
    memory_bytes: int = 12 << 30


@dataclass(frozen=True)
class LoweredArgument:
    """An argument of a kernel: a parameter or an open size of the script, as it is or described by a tensor map."""

    parameter: str
    tensor_map: TensorMap | None = None


@dataclass(frozen=True)
class Lowered:
    """A script as CUDA, with its launch."""

    source: str
    entry: str
    arguments: tuple[LoweredArgument, ...]
    grid: tuple[Count, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    dynamic_shared: int

    def __str__(self) -> str:
        return self.source


class _Ended(Exception):
    """The process died or was too slow; says which."""


@dataclass
class Worker:
    """One worker process, started on first use; a context manager that ends it.

    Args:
        limits: of time and memory.
        command: what to run.
    """

    limits: Limits = field(default_factory=Limits)
    command: Sequence[str] = SERVICE
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _errors: IO[str] | None = field(default=None, init=False)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def lower(self, script: Script, arch: str) -> Lowered:
        """Lower a script.

        Raises:
            Refused: TileLang can't lower it, died of it, or took too long; the next call starts a new process.
            MissingToolError: the process can't start.
        """
        process = self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"script": script.text, "name": script.name, "arch": arch}) + "\n")
            process.stdin.flush()
            answer = self._receive(process, self.limits.seconds)
        except (BrokenPipeError, _Ended) as end:
            said = self._last_words()
            self.stop()
            reason = str(end) if isinstance(end, _Ended) else "the worker process died"
            raise Refused("worker", f"{reason} while lowering {script.name}", said) from end
        if "error" in answer:
            raise Refused("tilelang", f"TileLang refuses {script.name}", _head(answer["error"]))
        return decode(Lowered, answer)

    def stop(self) -> None:
        """End the process, if one runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*self.command, str(self.limits.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
        )
        try:
            self._receive(self._process, self.limits.start_s)
        except _Ended as end:
            said = self._last_words()
            self.stop()
            raise MissingToolError(f"TileLang doesn't start: {end}: {said}", MEND) from end
        return self._process

    def _receive(self, process: subprocess.Popen[str], seconds: float) -> Any:
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            raise _Ended(f"the worker process took more than {seconds:g} s")
        line = process.stdout.readline()
        if not line.endswith("\n"):
            raise _Ended(f"the worker process died with exit code {process.wait()}")
        return json.loads(line)

    def _last_words(self) -> str:
        """The end of what the process wrote to stderr."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read()[-4000:].splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""


def _head(text: str) -> str:
    """The useful part of TileLang's errors is at their head."""
    return " ".join(text.split())[:300]
