"""Recurrent layers for a GPU: rows to blocks, units to threads, what units read of each other in shared memory."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm")

import tvm
from tvm import tirx

from redfuser.codegen.gpu.module import HOST
from redfuser.codegen.gpu.remainder.scheduling import schedule_function
from redfuser.recurrent.plain import plain
from redfuser.recurrent.recurrence import Activation, Recurrence

MACHINE = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host=HOST)
TANH = Activation("tanh")


@pytest.mark.parametrize("hidden", [5, 256, 1040, 2032])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_rows_go_to_blocks_and_units_to_threads(hidden: int, open_sizes: bool) -> None:
    recurrence = Recurrence("GRU", hidden, "float32", (TANH, TANH), ragged=True)
    sizes = (tirx.Var("n", "int64"), tirx.Var("b", "int64")) if open_sizes else (7, 3)
    chosen, scheduled = schedule_function(plain(recurrence, *sizes), MACHINE)
    assert chosen == "recurrent" and scheduled.attrs["tirx.is_scheduled"]
    bound: dict[str, set[object]] = {}

    def visit(node: object) -> None:
        if isinstance(node, tirx.For) and node.thread_binding is not None:
            extent = node.extent
            bound.setdefault(node.thread_binding.thread_tag, set()).add(
                int(extent) if isinstance(extent, tirx.IntImm) else "open"
            )

    tirx.stmt_functor.post_order_visit(scheduled.body, visit)
    (threads,), (blocks,) = bound["threadIdx.x"], bound["blockIdx.x"]
    assert blocks == ("open" if open_sizes else 3)
    assert threads <= 512 and recurrence.units % threads == 0
    shared = [b for b in scheduled.body.block.alloc_buffers if b.scope() == "shared"]
    assert {len(buffer.shape) for buffer in shared} == {1, 2}
