"""Files kept for the next compile on this machine, under the user's cache folder: one record a file, JSON.

Written beside their place and renamed into it, so that two compiles at once never see half a file. One that can't be
read is reported and treated as absent.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from redfuser.records import RecordError, decode, encode, parse, to_text

T = TypeVar("T")

Warn = Callable[[str], None]


def cache_folder() -> Path:
    """``redfuser`` under ``XDG_CACHE_HOME``, or under ``~/.cache``; the variable counts only if it is absolute."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "redfuser"


@dataclass(frozen=True)
class Entry:
    """One file of the cache: its kind (the folder), its name, its size."""

    kind: str
    path: Path
    size: int

    def __str__(self) -> str:
        return f"{self.kind} {self.path.stem} {self.size} bytes"


@dataclass(frozen=True)
class Cache:
    """The cache in one folder; a folder that can't be written makes a cache that keeps nothing.

    Args:
        folder: it need not exist.
        warn: is told what is wrong with a file.
    """

    folder: Path
    warn: Warn = lambda text: None

    def read(self, kind: type[T], name: str, key: str) -> T | None:
        """The record of a key, or ``None``.

        Args:
            kind: the dataclass it decodes to.
            name: the folder below the cache's: ``records``, ``rates``.
        """
        path = self.place(name, key)
        try:
            return decode(kind, parse(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, RecordError) as error:
            self.warn(f"ignored a damaged file in the cache, {path}: {error}")
            return None

    def write(self, name: str, key: str, value: object) -> None:
        """Keep a record."""
        self._replace(self.place(name, key), to_text(encode(value)))

    def append(self, name: str, key: str, value: object) -> None:
        """Add a line to a journal; one cut short by an interruption costs that line alone."""
        path = self.place(name, key, ".jsonl")
        text = json.dumps(encode(value), allow_nan=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror}")

    def lines(self, kind: type[T], name: str, key: str) -> Iterator[T]:
        """What was appended to a journal, damaged lines left out."""
        try:
            text = self.place(name, key, ".jsonl").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            try:
                yield decode(kind, parse(line))
            except RecordError:
                continue

    def drop(self, name: str, key: str) -> None:
        """Remove a journal."""
        self.place(name, key, ".jsonl").unlink(missing_ok=True)

    def entries(self) -> list[Entry]:
        """Every file, sorted."""
        files = [path for pattern in ("*/*.json", "*/*.jsonl") for path in self.folder.glob(pattern) if path.is_file()]
        return [Entry(path.parent.name, path, path.stat().st_size) for path in sorted(files)]

    def clear(self) -> int:
        """Remove every file; gives how many."""
        found = self.entries()
        for entry in found:
            entry.path.unlink(missing_ok=True)
        return len(found)

    def place(self, name: str, key: str, suffix: str = ".json") -> Path:
        """Where the file of a key lies."""
        return self.folder / name / f"{key}{suffix}"

    def _replace(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".partial", delete=False) as file:
                file.write(text)
            os.replace(file.name, path)
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror}")
