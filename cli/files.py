"""Single files that a command writes: refused before any work is done, and all there or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redfuser.errors import OutputError


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written; one that exists is replaced.

    Raises:
        OutputError: its folder is missing or closed, or it exists and isn't a plain file.
    """
    parent, hint = path.absolute().parent, "choose another file"
    if not path.name:
        raise OutputError(f"{str(path)!r} isn't the name of a file", hint)
    if not parent.is_dir():
        raise OutputError(f"the folder {str(parent)!r} doesn't exist", f"create it, or {hint}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {str(parent)!r} cannot be written", hint)
    if os.path.lexists(path) and not path.is_file():
        raise OutputError(f"{str(path)!r} exists and isn't a file", hint)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes ``path`` at the end, its name ending alike; nothing is left if that fails.

    Raises:
        OutputError: see :func:`check_file`; also when the disk refuses.
    """
    check_file(path)
    partial = path.with_name(f".{path.name[:64]}.{os.getpid()}.partial{path.suffix[:16]}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}", "choose another file") from error
    finally:
        partial.unlink(missing_ok=True)
