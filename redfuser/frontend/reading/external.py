"""External tensor data: read only from regular files inside the model's own folder."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from redfuser.errors import ModelError, UnsafeModelError
from redfuser.frontend.reading.walk import tensors_of

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


def load_external_data(proto: ModelProto, folder: Path, limit: int, digest: hashlib._Hash) -> int:
    """Bring the data of every tensor into the model.

    Args:
        proto: changed in place; no tensor refers to another file after it.
        folder: the model's own.
        limit: bytes of all together.
        digest: fed with every piece.

    Returns:
        Bytes read.

    Raises:
        UnsafeModelError: the data lies outside the folder, isn't a plain file, or reaches past its end.
        ModelError: the file is missing, or the limit is exceeded.
    """
    total = 0
    for tensor in tensors_of(proto):
        if _is_external(tensor):
            data = _read_external(tensor, folder, limit - total)
            total += len(data)
            digest.update(f"{tensor.name}:{len(data)}:".encode())
            digest.update(data)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data
    return total


def _read_external(tensor: TensorProto, folder: Path, limit: int) -> bytes:
    """The bytes of one external tensor; every check is made on the opened file, not on its name."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"tensor '{tensor.name}': external data '{location}'"
    descriptor = _open_inside(folder, location, what)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeModelError(f"{what} is not a regular file")
        if status.st_nlink > 1:
            raise UnsafeModelError(f"{what} is a hard link", "copy the data file beside the model")
        try:
            offset = int(entries.get("offset", "0") or 0)
            length = int(entries.get("length", "") or status.st_size - offset)
        except ValueError as error:
            raise ModelError(f"{what} has an offset or length that is not a number") from error
        if offset < 0 or length < 0 or offset + length > status.st_size:
            raise UnsafeModelError(f"{what} reaches past the end of its file ({status.st_size} bytes)")
        if length > limit:
            raise ModelError(f"{what} exceeds the limit on external data")
        file.seek(offset)
        return file.read(length)


def _open_inside(folder: Path, location: str, what: str) -> int:
    """Open a file below ``folder``, following no link on the way."""
    parts = PurePosixPath(location).parts
    if not parts or "\\" in location or "\0" in location or PurePosixPath(location).is_absolute() or ".." in parts:
        raise UnsafeModelError(f"{what} is not a path inside the model's folder", "keep the data beside the model")
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            parent, opened = opened, os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(parent)
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
    except FileNotFoundError as error:
        raise ModelError(f"{what} does not exist") from error
    except OSError as error:
        raise UnsafeModelError(f"{what} cannot be opened as a plain file: {error.strerror}") from error
    finally:
        os.close(opened)


def _is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's data lies in another file (or claims to)."""
    from onnx import TensorProto

    return tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)
