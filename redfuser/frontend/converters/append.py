"""New rows behind those that there are, in one pass. Imports TVM: import it lazily."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from redfuser.frontend.converters.common import Attributes, Inputs, constant, dtype_of, extents_of, symbols_of


def convert_append(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Append of our own domain: see :data:`redfuser.frontend.normalising.own.APPEND`.

    Raises:
        Tied: the past is of open size, and the room isn't known to be as long as it and the new rows.
        ValueError: it is for some sizes only.
    """
    past, new, before, room = inputs
    length = room.value if isinstance(room, relax.PrimValue) else int(constant(room, "the room").item())
    kept, count = extents_of(past)[2], extents_of(new)[2]
    if not isinstance(kept, int):
        symbols_of(attributes).require_equal(length, kept + count)

    def append(old: te.Tensor, added: te.Tensor, first: te.Tensor, rows: Any) -> te.Tensor:
        batch, groups, own, size = added.shape
        nothing = tirx.const(0, dtype_of(new))

        def element(b: tirx.Var, g: tirx.Var, row: tirx.Var, d: tirx.Var) -> tirx.PrimExpr:
            place = row - first[b, 0]
            behind = tirx.if_then_else(place < own, added[b, g, 0 if count == 1 else place, d], nothing)
            return tirx.if_then_else(place < 0, old[b, g, row, d], behind)

        return te.compute((batch, groups, rows, size), element, name="append")

    return bb.emit_te(append, past, new, before, length, primfunc_name_hint="append")
