"""Paths as users give them."""

from __future__ import annotations

import os
from pathlib import Path

from redfuser.errors import UsageError


def path_of(given: str | os.PathLike[str]) -> Path:
    """The path, whether or not anything is there.

    Raises:
        UsageError: no file can have this name: a NUL byte is in it, or what the file system can't write.
    """
    path = Path(given)
    try:
        usable = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise UsageError(f"{str(path)!a} can't be a path", "give it without NUL and unpaired surrogates")
    return path
