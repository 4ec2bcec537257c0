"""One block of a product of bytes: a row block against some panels, over all of the depth or a part of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from redfuser.codegen.cpu.bytes.matrix import Matrix
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Expr, index

#: Of the depth was summed before.
NOTHING = index(0)


@dataclass(frozen=True)
class Block:
    """``sums = left · right``, or ``sums += left · right`` where something was summed before.

    Args:
        left: int8 or uint8, rows × depth. Columns up to the next multiple of 64 may hold anything, but must be
            readable. So must rows up to the next multiple of 16 where AMX is used and there is no count.
        right: packed as :class:`redfuser.codegen.cpu.bytes.panels.Panels` says; the pitch is a panel's size.
        sums: int32, rows × 16·panels; has room for rows up to the next multiple of 16 where there is no count.
        rows: of this block, or the most it may have.
        panels: of this block.
        steps: tiles along the depth.
        before: 0 where nothing was summed before.
        far: whether ``right`` comes from memory, and what follows it is needed next.
        count: rows, where their number is known on the call only; no other is read or written.
        depth: rows of ``right`` that aren't filling; all of its tiles if 0.
    """

    left: Matrix
    right: Matrix
    sums: Matrix
    rows: int
    panels: int
    steps: int
    before: Expr = NOTHING
    far: bool = False
    count: Expr | None = None
    depth: int = 0

    def each_row(self, builder: Builder, name: str = "row") -> AbstractContextManager[Expr]:
        """A loop over the rows."""
        return builder.loop(name, self.rows, "serial", None if self.count is None else builder.index(self.count))

    @property
    def signs(self) -> str:
        """Of left and right: ``s`` or ``u`` each."""
        return "".join("u" if str(m.array.dtype) == "uint8" else "s" for m in (self.left, self.right))
