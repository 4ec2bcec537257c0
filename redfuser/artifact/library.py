"""Open a module's library as it lies on the disk now.

The dynamic loader answers for a name that it has opened, and for a file that it has mapped, with the library of then.
So a process that loads an artifact again, after its folder was replaced or a file overwritten, would run the old one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any

#: Symbol of the data in a library; its size comes first.
DATA = b"__tvm_ffi__library_bin"

#: When the file that a library was opened from had last changed, in ns since 1970; by device and inode.
_changed: dict[tuple[int, int], int] = {}
_turn = Lock()


def open_library(path: Path, keep: bool) -> Any:
    """TVM's module of a library. One that was opened before is shared if its file is unchanged, and stays if it isn't.

    Args:
        path: of the file; nothing is written beside it.
        keep: whether it stays open to the end of the process, not only as long as the module or a function of it.

    Raises:
        OSError: the file can't be read or isn't a library.
    """
    from tvm_ffi import get_global_func

    with _turn, path.open("rb") as file:
        status = os.fstat(file.fileno())
        name = _own_name(str(path.absolute().parent), path.name, status)
        identity, changed = (status.st_dev, status.st_ino), status.st_ctime_ns
        try:
            if _is_open(name) and _changed.get(identity, changed) != changed:
                module = _open_copy(file)
            else:
                # Not tvm.runtime.load_module, which follows links and so spells the path its own way.
                module = get_global_func("ffi.Module.load_from_file.so")(name, "so")
                _changed[identity] = changed
                _let_go_of_data(name)
        except RuntimeError as error:
            raise OSError(str(error).replace(name, str(path))) from error
    if keep:
        get_global_func("ffi.ModuleGlobalsAdd")(module)
    return module


def _own_name(folder: str, name: str, status: os.stat_result) -> str:
    """The path of a file, spelled as that of no other file: device and inode in binary, 0 as ``/`` and 1 as ``/.``."""
    number = f"{status.st_dev << 64 | status.st_ino:b}"
    return folder + number.replace("1", "/.").replace("0", "/") + "/" + name


def _is_open(name: str) -> bool:
    """Whether the loader has mapped this file, by whatever name."""
    with _opened(name) as (_, handle):
        return bool(handle)


@contextmanager
def _opened(name: str) -> Iterator[tuple[ctypes.CDLL, int | None]]:
    """The C library, and its handle of a library if that is open: this opens none."""
    loader = ctypes.CDLL(None)
    loader.dlopen.restype = loader.dlsym.restype = ctypes.c_void_p
    handle = loader.dlopen(os.fsencode(name), os.RTLD_LAZY | os.RTLD_NOLOAD)
    try:
        yield loader, handle
    finally:
        if handle:
            loader.dlclose(ctypes.c_void_p(handle))


def _let_go_of_data(name: str) -> None:
    """Unmap the pages of what TVM has copied out of a library: weights, once more. Read again, they come back."""
    with _opened(name) as (loader, handle):
        data = loader.dlsym(ctypes.c_void_p(handle), DATA) if handle else None
        if not data:
            return
        end = data + ctypes.sizeof(ctypes.c_uint64) + ctypes.c_uint64.from_address(data).value
        first, last = -(-data // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            loader.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


def _open_copy(file: IO[bytes]) -> Any:
    """A library of a file's content, in memory of its own: the loader would take the file for the one it has mapped."""
    from tvm_ffi import get_global_func

    with os.fdopen(os.memfd_create("module.so"), "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.flush()
        name = _own_name("/proc/self/fd", str(copy.fileno()), os.fstat(copy.fileno()))
        return get_global_func("ffi.Module.load_from_file.so")(name, "so")
