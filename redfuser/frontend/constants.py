"""Views of constants (reshapes, transposes, casts) as constants. Imports TVM: import it lazily.

Done with NumPy: TVM's FoldConstant compiles every one of them, which takes seconds on a model with many
biases, and would turn masks computed from positions into tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from redfuser.contents import contents, held


def _reshaped(array: np.ndarray, call: relax.Call) -> np.ndarray:
    return array.reshape([int(extent) for extent in call.struct_info.shape])


def _transposed(array: np.ndarray, call: relax.Call) -> np.ndarray:
    axes = call.attrs.axes
    return np.ascontiguousarray(array.transpose(None if axes is None else [int(axis) for axis in axes]))


def _converted(array: np.ndarray, call: relax.Call) -> np.ndarray:
    return array.astype(np.dtype(str(call.struct_info.dtype)))


_VIEWS: dict[str, Callable[[np.ndarray, relax.Call], np.ndarray]] = {
    "relax.astype": _converted,
    "relax.expand_dims": _reshaped,
    "relax.permute_dims": _transposed,
    "relax.reshape": _reshaped,
    "relax.squeeze": _reshaped,
}


def fold_views(module: tvm.IRModule) -> tvm.IRModule:
    """Replace views of constants in ``main`` by constants; the module is changed in place, and returned."""
    module["main"] = _Folder().visit_expr(module["main"])
    return module


@mutator
class _Folder(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = super().visit_call_(op)
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        source = self._constant(call.args[0]) if name in _VIEWS else None
        if source is None:
            return call
        array = _VIEWS[name](contents(source), op)
        return relax.Constant(held(array))

    def _constant(self, value: relax.Expr) -> relax.Constant | None:
        """The constant that an argument is, or is bound to."""
        if isinstance(value, relax.Var):
            value = self.lookup_binding(value)
        return value if isinstance(value, relax.Constant) else None
