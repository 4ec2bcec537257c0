"""Compiled kernels kept by content between runs, in the user's cache folder."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from redfuser.codegen.gpu.value import GpuKernel
from redfuser.records import RecordError, decode, encode, parse, to_text


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/redfuser/kernels``, under ``~/.cache`` where the variable isn't set."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redfuser" / "kernels"


@dataclass(frozen=True)
class KernelCache:
    """A folder of kernels, one JSON file each, named by the digest of what they were made from."""

    folder: Path

    def get(self, key: str) -> GpuKernel | None:
        """The kernel of that key; None if there is none, or its file is damaged."""
        try:
            return decode(GpuKernel, parse(self._path(key).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, RecordError):
            return None

    def put(self, key: str, kernel: GpuKernel) -> None:
        """Keep a kernel. Several processes may do so at once; a folder that can't be written keeps nothing."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
                file.write(to_text(encode(kernel)))
            os.replace(file.name, path)
        except OSError:
            return

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
