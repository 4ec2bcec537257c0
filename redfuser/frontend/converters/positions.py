"""The largest of indices that are counted from open dimensions, as the positions of a table of embeddings are."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

#: Operators that move elements and leave them as they are.
_MOVES = frozenset({"astype", "broadcast_to", "expand_dims", "permute_dims", "reshape", "squeeze"})


def largest(bb: relax.BlockBuilder, value: relax.Expr) -> Any:
    """No element of an integer tensor is larger than this; None where that isn't seen.

    Followed are numbers counted up by one (Range), sums and minima of such and constants, and what only moves elements.
    """
    return _largest(bb, value, {})


def _largest(bb: relax.BlockBuilder, value: relax.Expr, found: dict[relax.Var, Any]) -> Any:
    """Each binding is followed once: a sum may read one twice, and so may that."""
    if isinstance(value, relax.Var):
        if value not in found:
            found[value] = _largest(bb, bb.lookup_binding(value), found)
        return found[value]
    return _of_value(bb, value, found)


def _of_value(bb: relax.BlockBuilder, value: relax.Expr, found: dict[relax.Var, Any]) -> Any:
    if isinstance(value, relax.Constant):
        contents = value.data.numpy()
        return int(contents.max()) if contents.size and contents.dtype.kind in "iu" else None
    if not isinstance(value, relax.Call) or not hasattr(value.op, "name"):
        return None
    name = value.op.name.removeprefix("relax.")
    if name == "arange":
        _, stop, step = (bound.value for bound in value.args)
        return stop - 1 if isinstance(step, tirx.IntImm) and int(step) == 1 else None
    if name == "add":
        parts = [_largest(bb, part, found) for part in value.args]
        return None if None in parts else parts[0] + parts[1]
    if name == "minimum":
        return next((part for part in (_largest(bb, each, found) for each in value.args) if part is not None), None)
    return _largest(bb, value.args[0], found) if name in _MOVES else None
