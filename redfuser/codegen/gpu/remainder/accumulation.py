"""Reductions of half-precision values in float32. Imports TVM: import it lazily.

TVM accumulates in the type of the result. A sum of thousands of float16 products needs more (METHOD §4), and tensor
cores accumulate in float32 anyway. Maximum and minimum lose nothing by it, and threads exchange float32 in registers.
"""

from __future__ import annotations

import tvm
from tvm import tirx

HALF = ("float16", "bfloat16")

WIDE = "float32"


def accumulate_wide(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with every reduction over a half type in float32, rounded once at its end.

    Args:
        function: unscheduled: a root block around loop nests of one block each.
    """
    root = function.body.block
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    allocated = list(root.alloc_buffers)
    widened: list[tirx.Stmt] = []
    for nest in nests:
        block = _accumulation(nest)
        if block is None:
            widened.append(nest)
            continue
        narrow = block.writes[0].buffer
        wide = tirx.decl_buffer(narrow.shape, WIDE, f"{narrow.name}_wide", scope=narrow.scope())
        allocated.append(wide)
        widened += [_replace(nest, block, _widen(block, narrow, wide)), _rounding(narrow, wide)]
    if len(widened) == len(nests):
        return function
    updated = tirx.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, tirx.SeqStmt(widened), root.init, allocated
    )
    return function.with_body(tirx.SBlockRealize(function.body.iter_values, function.body.predicate, updated))


def _accumulation(nest: tirx.Stmt) -> tirx.SBlock | None:
    """The block of a nest that folds one half-precision value a point."""
    blocks: list[tirx.SBlock] = []
    tirx.stmt_functor.post_order_visit(
        nest, lambda node: blocks.append(node) if isinstance(node, tirx.SBlock) else None
    )
    if len(blocks) != 1 or blocks[0].init is None or not isinstance(blocks[0].body, tirx.BufferStore):
        return None
    store = blocks[0].body
    folds = isinstance(store.value, tirx.Add | tirx.Mul | tirx.Max | tirx.Min)
    return blocks[0] if folds and str(store.buffer.dtype) in HALF and not blocks[0].alloc_buffers else None


def _widen(block: tirx.SBlock, narrow: tirx.Buffer, wide: tirx.Buffer) -> tirx.SBlock:
    body = tirx.BufferStore(wide, _wider(block.body.value, narrow, wide), block.body.indices)
    init = tirx.BufferStore(wide, _wider(block.init.value, narrow, wide), block.init.indices)
    reads = [r for r in block.reads if not r.buffer.same_as(narrow)]
    writes = [tirx.BufferRegion(wide, block.writes[0].region)]
    return tirx.SBlock(block.iter_vars, reads, writes, block.name_hint, body, init, annotations=block.annotations)


def _wider(value: tirx.PrimExpr, narrow: tirx.Buffer, wide: tirx.Buffer) -> tirx.PrimExpr:
    """The value computed in float32, as far down as arithmetic goes."""
    if isinstance(value, tirx.FloatImm):
        return tirx.const(value.value, WIDE)
    if isinstance(value, tirx.Add | tirx.Sub | tirx.Mul | tirx.Max | tirx.Min):
        return type(value)(_wider(value.a, narrow, wide), _wider(value.b, narrow, wide))
    if isinstance(value, tirx.BufferLoad) and value.buffer.same_as(narrow):
        return tirx.BufferLoad(wide, value.indices)
    return tirx.Cast(WIDE, value)


def _replace(nest: tirx.Stmt, block: tirx.SBlock, by: tirx.SBlock) -> tirx.Stmt:
    def swap(node: tirx.SBlock) -> tirx.SBlock | None:
        return by if node.same_as(block) else None

    return tirx.stmt_functor.ir_transform(nest, swap, None, ["tirx.SBlock"])


def _rounding(narrow: tirx.Buffer, wide: tirx.Buffer) -> tirx.Stmt:
    """``narrow = cast(wide)``, a loop nest of one block."""
    axes = [tirx.Var(f"i{n}", "int64") for n in range(len(narrow.shape))]
    points = [tirx.Var(f"v{n}", "int64") for n in range(len(narrow.shape))]
    extents = [tvm.ir.Range(0, tirx.Cast("int64", extent)) for extent in narrow.shape]
    region = [tvm.ir.Range.from_min_extent(point, tirx.IntImm("int64", 1)) for point in points]
    block = tirx.SBlock(
        [tirx.IterVar(extent, point, tirx.IterVar.DataPar) for extent, point in zip(extents, points, strict=True)],
        [tirx.BufferRegion(wide, region)],
        [tirx.BufferRegion(narrow, region)],
        f"{narrow.name}_round",
        tirx.BufferStore(narrow, tirx.Cast(str(narrow.dtype), tirx.BufferLoad(wide, points)), points),
    )
    nest: tirx.Stmt = tirx.SBlockRealize(axes, True, block)
    for axis, extent in reversed(list(zip(axes, narrow.shape, strict=True))):
        nest = tirx.For(axis, tirx.IntImm("int64", 0), tirx.Cast("int64", extent), tirx.ForKind.SERIAL, nest)
    return nest
