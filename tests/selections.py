"""Cascades that select, and what they should give."""

from __future__ import annotations

from typing import Any

import numpy as np

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.cascade.reading.selection import negated
from redfuser.expr import PAIR, Tensor, axis, cast, load, op, pair, position_of, value_of

Array = np.ndarray[Any, Any]


def routing(rows: int, experts: int, k: int, dtype: str = "float32", largest: bool = True) -> Cascade:
    """The ``k`` best probabilities of each row, divided by their sum, and their positions; one is kept as it is."""
    i, j = axis("i", rows), axis("l", experts)
    place = axis("place", k)
    x = cast(load(Tensor("x", (rows, experts), dtype), i, j), "float32")
    m = Reduction(Tensor("max0", (rows,), "float32"), "max", (i,), j, x)
    weight = op("exp", op("sub", x, m.value))
    t = Reduction(Tensor("sum1", (rows,), "float32"), "sum", (i,), j, weight)
    combiner = {(True, True): "topk", (True, False): "bottomk", (False, True): "max", (False, False): "min"}
    kept = (i, place) if k > 1 else (i,)
    item = pair(op("div", weight, t.value), negated(j) if largest else j)
    list_ = Tensor("list2", tuple(a.extent for a in kept), PAIR)
    best = Reduction(list_, combiner[k > 1, largest], kept, j, item, place if k > 1 else None)
    value, position = value_of(best.value, "float32"), position_of(best.value)
    total = Reduction(Tensor("sum3", (rows,), "float32"), "sum", (i,), place, value)
    y = op("div", value, total.value) if k > 1 else value
    outputs = (
        Output(Tensor("y", list_.shape, "float32"), kept, kept, y),
        Output(Tensor("where", list_.shape, "int64"), kept, kept, negated(position) if largest else position),
    )
    inputs = (Tensor("x", (rows, experts), dtype),)
    epilogues = (total,) if k > 1 else ()
    cascade = Cascade("routing_0", (i,), j, inputs, (), (m, t, best), outputs, epilogues=epilogues)
    cascade.verify()
    return cascade


def selection(rows: int, width: int, k: int, dtype: str, largest: bool = True) -> Cascade:
    """The values and positions of the ``k`` best of each row, ``k > 1``."""
    i, j, place = axis("i", rows), axis("l", width), axis("place", k)
    x = Tensor("x", (rows, width), dtype)
    item = pair(load(x, i, j), negated(j) if largest else j)
    best = Reduction(Tensor("list0", (rows, k), PAIR), "topk" if largest else "bottomk", (i, place), j, item, place)
    position = position_of(best.value)
    outputs = (
        Output(Tensor("y", (rows, k), dtype), (i, place), (i, place), value_of(best.value, dtype)),
        Output(Tensor("where", (rows, k), "int64"), (i, place), (i, place), negated(position) if largest else position),
    )
    cascade = Cascade("routing_0", (i,), j, (x,), (), (best,), outputs)
    cascade.verify()
    return cascade


def ordered(values: Array, k: int, largest: bool = True) -> Array:
    """Positions of the ``k`` best along the last axis: a stable sort with NaN above every number."""
    wide = values.astype(np.float64)
    keys = (-wide, ~np.isnan(wide)) if largest else (wide, np.isnan(wide))
    return np.lexsort(keys, axis=-1)[..., :k]


def hard_rows(rows: int, width: int, seed: int = 0) -> Array:
    """Rows with ties, NaN, infinities and both zeros among ordinary ones, in float32."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, width)).astype(np.float32)
    kinds = (
        lambda row: np.round(row),
        lambda row: np.zeros_like(row),
        lambda row: np.where(random.random(width) < 0.7, -np.inf, row),
        lambda row: np.full_like(row, -np.inf),
        lambda row: np.where(random.random(width) < 0.3, np.nan, row),
        lambda row: np.where(random.random(width) < 0.3, np.inf, row),
        lambda row: np.where(random.random(width) < 0.5, -0.0, 0.0),
        lambda row: np.sort(row),
        lambda row: row,
    )
    return np.stack([kinds[n % len(kinds)](row) for n, row in enumerate(x)]).astype(np.float32)
