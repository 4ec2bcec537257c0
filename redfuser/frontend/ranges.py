"""The sizes that symbolic dimensions may have: of those given none, and of those that are sums of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from redfuser.errors import UsageError
from redfuser.frontend.normalising.own import APPEND
from redfuser.frontend.reading.walk import names_read
from redfuser.signature import ANY_SIZE, DimRange, DimSum

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: Range of a past that was given none: a prompt has none.
FROM_NOTHING = DimRange(0, ANY_SIZE.high)


def with_pasts(proto: ModelProto, dims: Mapping[str, DimRange]) -> dict[str, DimRange]:
    """The ranges, from 0 on where a dimension was given none and all that reads it puts something behind it."""
    names = [name for name in dims if dims[name] == ANY_SIZE and _is_past(proto, name)]
    return {**dims, **dict.fromkeys(names, FROM_NOTHING)}


def _is_past(proto: ModelProto, name: str) -> bool:
    places = {value.name: _places(value.type.tensor_type.shape.dim, name) for value in proto.graph.input}
    reads = [(node, read) for node in proto.graph.node for read in names_read(node) if places.get(read)]
    reads = [(node, read) for node, read in reads if node.op_type != "Shape"]
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in proto.graph.input}
    return bool(reads) and all([_joined_along(node, read, ranks[read])] == places[read] for node, read in reads)


def _places(dims: Iterable[object], name: str) -> list[int]:
    return [place for place, dim in enumerate(dims) if getattr(dim, "dim_param", "") == name]


def _joined_along(node: NodeProto, read: str, rank: int) -> int | None:
    """The axis of an input along which a node puts something behind it; None if it doesn't."""
    if node.op_type not in ("Concat", APPEND) or read != node.input[0]:
        return None
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 2) % rank


def within_sums(ranges: Mapping[str, DimRange], sums: Mapping[str, DimSum]) -> dict[str, DimRange]:
    """The ranges without sizes at which a sum would leave its own.

    Raises:
        UsageError: no sizes are left.
    """
    result = dict(ranges)
    for name, total in sums.items():
        lows = {dim: result[dim].low for dim in total.counts}
        highs = {dim: result[dim].high for dim in total.counts}
        low, high = max(result[name].low, total.at(lows)), min(result[name].high, total.at(highs))
        if low > high:
            raise UsageError(
                f"dimension {name!r} has to be {total}, which it isn't for any sizes in the ranges given",
                f"compile with --dim {name}={total.at(lows)}:{total.at(highs)}",
            )
        result[name] = DimRange(low, high)
        for dim in total.counts:
            result[dim] = DimRange(lows[dim], min(highs[dim], total.rest(high, dim, lows)))
    return result
