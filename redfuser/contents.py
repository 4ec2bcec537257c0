"""Constants of TVM and arrays of NumPy on the same memory: weights are large. Imports neither until it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redfuser.expr.evaluate import numpy_dtype

if TYPE_CHECKING:
    import numpy as np
    from tvm import relax
    from tvm.runtime import Tensor

    Array = np.ndarray[Any, Any]

#: TVM takes the memory of arrays that start at multiples of this.
ALIGNMENT = 64


def contents(constant: relax.Constant) -> Array:
    """What a constant holds, to read only; a copy only of types that are none of NumPy's own."""
    import numpy as np

    if not _is_plain(numpy_dtype(str(constant.struct_info.dtype))):
        return constant.data.numpy()
    return np.from_dlpack(constant.data)


def held(array: Array) -> Tensor:
    """An array, which nobody writes to any more, as TVM holds it; a copy only where TVM can't take it as it is."""
    from tvm import runtime

    flags, place = array.flags, array.ctypes.data
    shared = _is_plain(array.dtype) and flags.c_contiguous and flags.writeable and not place % ALIGNMENT
    return runtime.from_dlpack(array) if shared else runtime.tensor(array)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether DLPack knows the type as NumPy has it."""
    return dtype.isbuiltin == 1
