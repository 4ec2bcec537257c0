"""PrimFuncs for operators TVM has no legalisation of. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

#: A number of elements: an integer, or an expression that is known on the call.
Extent = int | tvm.tirx.PrimExpr


def _extent(value: Extent, name: str) -> tvm.tirx.PrimExpr:
    """An extent of a buffer: what is known on the call gets a variable, which takes the argument's."""
    return tvm.tirx.IntImm("int64", value) if isinstance(value, int) else tvm.tirx.Var(name, "int64")


def top_k(rows: Extent, width: Extent, k: int, dtype: str, largest: bool, last: bool = False) -> tvm.tirx.PrimFunc:
    """The k best of each row, best first, ties to the lowest index, NaN above every number.

    One reduction block over the row: a sorted list of k (value, index) pairs into which each element is inserted.
    Its annotations ``redfuser.topk``, ``redfuser.largest`` and ``redfuser.last`` say so to
    :mod:`redfuser.cascade.reading.selection`.

    Args:
        rows, width: shape of the input.
        k: how many, ``0 <= k <= width``.
        dtype: element type; indices are int64.
        largest: False for the smallest (NaN last).
        last: ties go to the highest index.
    """
    n, w, kept = _extent(rows, "rows"), _extent(width, "width"), _extent(k, "k")
    is_float = "float" in dtype
    annotations = {"redfuser.topk": k, "redfuser.largest": int(largest), "redfuser.last": int(last)}

    def better(a: tvm.tirx.PrimExpr, b: tvm.tirx.PrimExpr) -> tvm.tirx.PrimExpr:
        ordered = a > b if largest else a < b
        if last:
            ordered = tvm.tirx.any(ordered, tvm.tirx.EQ(a, b))
        if not is_float:
            return ordered
        first, second = (a, b) if largest else (b, a)
        beyond = T.isnan(first) if last else tvm.tirx.all(T.isnan(first), tvm.tirx.Not(T.isnan(second)))
        return tvm.tirx.any(ordered, beyond)

    @T.prim_func(private=True, s_tir=True)
    def kernel(
        data: T.Buffer((n, w), dtype), values: T.Buffer((n, kept), dtype), indices: T.Buffer((n, kept), "int64")
    ) -> None:
        T.func_attr({"tirx.noalias": True, "op_pattern": 8})
        for row, column in T.grid(n, w):
            with T.sblock("top_k"):
                i, j = T.axis.remap("SR", [row, column])
                T.reads(data[i, j])
                T.writes(values[i, 0:kept], indices[i, 0:kept])
                T.sblock_attr(annotations)
                with T.init():
                    for place in T.serial(kept):
                        values[i, place] = T.cast(0, dtype)
                        indices[i, place] = T.int64(-1)
                for step in T.serial(kept):
                    if T.Or(indices[i, kept - 1 - step] < T.int64(0), better(data[i, j], values[i, kept - 1 - step])):
                        if step > 0:
                            values[i, kept - step] = values[i, kept - 1 - step]
                            indices[i, kept - step] = indices[i, kept - 1 - step]
                        values[i, kept - 1 - step] = data[i, j]
                        indices[i, kept - 1 - step] = j

    return kernel


def cumulative_sum(
    shape: tuple[Extent, Extent, Extent], dtype: str, exclusive: bool, reverse: bool
) -> tvm.tirx.PrimFunc:
    """Running sums along the middle axis of a 3-D tensor.

    Args:
        shape: (outer, length, inner).
        dtype: element type, also of the sums.
        exclusive: leave out the element itself.
        reverse: sum from the end.
    """
    outer, length, inner = map(_extent, shape, ("outer", "length", "inner"))

    @T.prim_func(private=True, s_tir=True)
    def kernel(data: T.Buffer((outer, length, inner), dtype), sums: T.Buffer((outer, length, inner), dtype)) -> None:
        T.func_attr({"tirx.noalias": True, "op_pattern": 8})
        for o, c, step in T.grid(outer, inner, length):
            with T.sblock("cumulative_sum"):
                i, k, s = T.axis.remap("SSS", [o, c, step])
                T.reads(data[i, 0:length, k])
                T.writes(sums[i, 0:length, k])
                here = (length - 1 - s) if reverse else s
                before = (here + 1) if reverse else (here - 1)
                taken = before if exclusive else here
                if s == 0:
                    sums[i, here, k] = T.cast(0, dtype) if exclusive else data[i, here, k]
                else:
                    sums[i, here, k] = sums[i, before, k] + data[i, taken, k]

    return kernel
