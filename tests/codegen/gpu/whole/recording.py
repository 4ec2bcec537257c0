"""A CUDA driver and runtime that record, and compute if told how: built by gcc, put in front of a child process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).parent / "driver"

ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Recording:
    """What a child process did.

    Args:
        code: its exit code.
        output: its stdout and stderr.
        events: calls of the driver, in order.
    """

    code: int
    output: str
    events: tuple[dict[str, Any], ...]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [event for event in self.events if event["event"] == kind]


@dataclass(frozen=True)
class Recorder:
    """The two libraries.

    Args:
        folder: where they are.
        emulation: what launches compute: see ``driver/emulation.h``; nothing if not given.
    """

    folder: Path
    emulation: Path | None = None

    def run(self, *arguments: str, **pretend: int) -> Recording:
        """Run Python with these arguments.

        Args:
            pretend: ``capability``, ``version``, ``shared``, ``devices``; see ``driver/libcuda.c``.
        """
        log = self.folder / "recording.jsonl"
        log.unlink(missing_ok=True)
        settings = {f"CUDA_RECORDING_{name.upper()}": str(value) for name, value in pretend.items()}
        if self.emulation is not None:
            settings["CUDA_EMULATION"] = str(self.emulation)
        environment = {**os.environ, **settings, "CUDA_RECORDING": str(log), "LD_LIBRARY_PATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        lines = log.read_text().splitlines() if log.exists() else []
        return Recording(done.returncode, done.stdout + done.stderr, tuple(map(json.loads, lines)))

    def redfuser(self, *arguments: object, **pretend: int) -> Recording:
        """Run the command line."""
        return self.run("-m", "redfuser_cli.main", *map(str, arguments), **pretend)


def build_recorder(folder: Path) -> Recorder:
    """Build the libraries; skips without gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("the recording driver needs gcc")
    driver = ["-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1"), "libcuda.c", "-lpthread", "-ldl"]
    runtime = ["-Wl,-soname,libcudart.so.13", "-Wl,--version-script=libcudart.map"]
    runtime += ["-o", str(folder / "libcudart.so.13"), "libcudart.c", str(folder / "libcuda.so.1")]
    for options in (driver, runtime):
        subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", *options], cwd=SOURCES, check=True)
    return Recorder(folder)
