"""Memory that TVM keeps of arrays that are gone, bounded where their sizes differ from call to call.

TVM keeps the memory of every array for the next one of the same size, for ever. With open dimensions each new size
adds to that: thousands of lengths of a text came to gigabytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The process, or what is in use of a GPU, may grow by so many bytes before what TVM keeps goes back to the system.
KEPT_BYTES = 256 << 20

#: So many sizes are remembered.
_MOST_SIZES = 4096

_STATUS = Path("/proc/self/statm")

Sizes = tuple[tuple[int, ...], ...]


class Kept:
    """What one loaded model did to the memory that it runs in, as far as new sizes of its inputs go.

    Args:
        gpu: TVM's device; None for the memory of this process.
    """

    def __init__(self, gpu: Any = None) -> None:
        self._gpu = gpu
        self._seen: set[Sizes] = set()
        self._least = 0

    def before_call(self, sizes: Sizes) -> None:
        """Empty TVM's stores if more memory is in use than when they were empty, by much, and these sizes are new.

        A call with sizes that came before takes no time here. Arrays still in use aren't in the stores.
        """
        if sizes in self._seen:
            return
        used = self._used()
        self._least = self._least or used
        if used - self._least > KEPT_BYTES or len(self._seen) >= _MOST_SIZES:
            _empty_stores()
            self._seen.clear()
            self._least = self._used()
        self._seen.add(sizes)

    def _used(self) -> int:
        return resident_bytes() if self._gpu is None else device_bytes(self._gpu)


def resident_bytes() -> int:
    """Memory of this process that is in use; 0 where the system doesn't tell."""
    import resource

    try:
        return int(_STATUS.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def device_bytes(gpu: Any) -> int:
    """Memory of a GPU that is in use, whoever uses it; what the driver doesn't tell counts as 0.

    Args:
        gpu: TVM's device.
    """
    return (gpu.total_global_memory or 0) - (gpu.available_global_memory or 0)


def _empty_stores() -> None:
    """Give back what TVM keeps, and what the C library then keeps in its place."""
    import ctypes

    from tvm_ffi import get_global_func

    get_global_func("vm.builtin.memory_manager.clear")()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
