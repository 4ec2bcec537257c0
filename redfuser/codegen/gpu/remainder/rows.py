"""A schedule rule for lone reductions: a block of threads for every row. Imports TVM: import it lazily.

TVM's own rules spread sums over threads; other reductions get one thread a row from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import s_tir, tirx
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.s_tir.dlight.base import try_inline

#: Fewer points are folded by one thread sooner; with this many rows a thread each keeps the device busy.
LEAST_POINTS, MOST_ROWS, MOST_THREADS = 64, 1 << 15, 256


class Rows(dlight.base.ScheduleRule):
    """Schedules a function that is one reduction, and perhaps something done to its results."""

    def apply(self, func: tirx.PrimFunc, target: object, tunable: bool) -> s_tir.Schedule | None:
        """The schedule; ``None`` for anything but a reduction of few long rows."""
        schedule = s_tir.Schedule(func)
        blocks = normalize_prim_func(schedule)
        blocks = try_inline(schedule, blocks) if blocks is not None else []
        if not 1 <= len(blocks) <= 2 or set(blocks[0].dom_kind()) - {"S", "R"} or "R" not in blocks[0].dom_kind():
            return None
        block, *after = blocks
        if after and not after[0].is_injective():
            return None
        if isinstance(schedule.get(block.block_rv).init, tirx.For):
            return None  # a list, into which one thread inserts: TVM can't share it out
        rows, points = (_known([axis.dom for axis in block.iters if axis.kind == kind]) for kind in "SR")
        if (points or LEAST_POINTS) < LEAST_POINTS or (rows or 0) > MOST_ROWS:
            return None
        kinds = zip(schedule.get_loops(block.block_rv), block.dom_kind(), strict=True)
        loops: dict[str, list] = {"S": [], "R": []}
        for loop, kind in kinds:
            loops[kind].append(loop)
        spatial = loops["S"] or [schedule.add_unit_loop(block.block_rv)]
        schedule.reorder(*spatial, *loops["R"])
        threads = min(MOST_THREADS, 1 << (points.bit_length() - 1)) if points else MOST_THREADS
        _, thread = schedule.split(schedule.fuse(*loops["R"]), factors=[None, threads])
        row = schedule.fuse(*spatial)
        schedule.bind(row, "blockIdx.x")
        schedule.bind(thread, "threadIdx.x")
        if after:
            schedule.reverse_compute_at(after[0].block_rv, row)
            schedule.set_scope(block.block_rv, 0, "shared")
        return schedule


def _known(extents: Sequence[tirx.PrimExpr]) -> int | None:
    """Their product; None where one is known on the call only."""
    return prod(map(int, extents)) if all(isinstance(extent, int | tirx.IntImm) for extent in extents) else None
