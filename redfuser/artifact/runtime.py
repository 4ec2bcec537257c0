"""TVM's runtime without its compiler: what runs a module, and tensors that it shares with NumPy.

Importing ``tvm`` loads the compiler, which takes most of a second and a hundred megabytes. A module for processors
needs none of it. Imports tvm_ffi, and tvm for GPUs: import it lazily.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tvm_ffi import Shape, Tensor, from_dlpack, get_global_func

#: In ``tvm/lib``: the runtime, and what some operators call besides.
LIBRARIES = ("libtvm_runtime.so", "libtvm_runtime_extra.so")

#: What DLPack calls the memory of a processor.
_PROCESSOR = 1

#: TVM's name for a store that keeps the memory of arrays that are gone.
_POOLED = 2


def load_runtime() -> None:
    """Load TVM's runtime into this process, unless it is there. TVM may be imported whole later on.

    Raises:
        ImportError: apache-tvm isn't installed.
        OSError: it can't be loaded.
    """
    if "tvm" in sys.modules:
        return
    spec = find_spec("tvm")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'tvm'")
    folder = Path(spec.origin).parent / "lib"
    if "TVM_LIBRARY_PATH" in os.environ or not all((folder / name).is_file() for name in LIBRARIES):
        import tvm  # noqa: F401  # built another way: it knows where its parts lie

        return
    for name in LIBRARIES:
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)


def start(module: Any, device: Any) -> Any:
    """The virtual machine of a module, ready: its functions by name.

    Args:
        module: of a library; see :func:`redfuser.artifact.library.open_library`.
        device: that it runs on. Shapes are computed on the processor.
    """
    machine = module["vm_load_executable"]()
    kind, number = device.dlpack_device_type(), device.index
    shapes = () if kind == _PROCESSOR else (_PROCESSOR, 0, _POOLED)
    machine["vm_initialization"](kind, number, _POOLED, *shapes)
    return machine


def to_device(array: np.ndarray, device: Any) -> Any:
    """A tensor of TVM: on a processor the array's own memory, elsewhere a copy.

    Args:
        array: contiguous and aligned, in this machine's byte order.
    """
    if device.dlpack_device_type() != _PROCESSOR:
        from tvm.runtime import tensor

        return tensor(array, device)
    dtype = array.dtype.name
    # Strides of an array without elements are all 0, which the module's checks take for gaps.
    if not array.size:
        return get_global_func("runtime.TVMTensorAllocWithScope")(Shape(array.shape), dtype, device, None)
    if not hasattr(np, dtype):
        return _seen_as(to_device(array.view(_bits(array.itemsize)), device), dtype)
    # The version lets NumPy hand out arrays that are read-only.
    return from_dlpack(array.__dlpack__(max_version=(1, 0)), require_alignment=array.itemsize, require_contiguous=True)


def to_host(tensor: Any) -> np.ndarray:
    """An array of NumPy: of a processor's tensor the own memory, else a copy."""
    if tensor.device.dlpack_device_type() != _PROCESSOR:
        return np.asarray(tensor.numpy())
    dtype = str(tensor.dtype)
    if hasattr(np, dtype):
        return np.from_dlpack(tensor)
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype))
    return np.from_dlpack(_seen_as(tensor, _bits(kind.itemsize))).view(kind)


def is_tensor(value: Any) -> bool:
    """Whether a module's result is one tensor, not several."""
    return isinstance(value, Tensor)


def _bits(size: int) -> str:
    """The type of unsigned numbers of so many bytes."""
    return f"uint{8 * size}"


def _seen_as(tensor: Any, dtype: str) -> Any:
    """The memory of a tensor as elements of another type of the same size, which NumPy and TVM can't pass otherwise."""
    return get_global_func("runtime.TVMTensorCreateView")(tensor, tensor.shape, dtype, 0)
