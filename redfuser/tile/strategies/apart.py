"""A product of bytes apart from what makes its left factor: two phases of one kernel, both resident.

The first goes through each row as often as it must and keeps the factor, whose elements are bytes, and the row's
results in memory. The second multiplies: its blocks are as large as the processor's matrix instructions want them,
whatever the size of the first one's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Expr, Load, Op, Tensor, axes_of, cast, load, loads, op, substitute
from redfuser.extents import is_symbolic, most
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.products import split_product
from redfuser.tile.strategies.resident import build_resident

#: The schedule's option.
APART = "apart"

#: Rows of a block of the first phase.
FIRST_ROWS = 8

#: What is summed in int32, exactly.
BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class Factors:
    """The product of a cascade, ``reduction = Σ int32(left) · int32(right)``; both are bytes."""

    reduction: Reduction
    left: Expr
    right: Load


def find_factors(cascade: Cascade) -> Factors | None:
    """The last reduction as a product of bytes: of what is computed for each row, and a matrix that all rows share."""
    last = cascade.reductions[-1]
    sizes = [a.extent for a in (*last.axes, cascade.axis) if a not in cascade.rows]
    if last.combiner != "sum" or last.result.dtype != "int32" or cascade.producers or cascade.epilogues:
        return None
    if any(map(is_symbolic, sizes)) or any(cascade.axis in output.axes for output in cascade.outputs):
        return None
    factors = split_product(last.map, last.axes, cascade.axis, lambda a: most(a.extent))
    left, right = (_narrow(factor) for factor in factors) if factors is not None else (None, None)
    if left is None or not isinstance(right, Load) or right.tensor not in cascade.inputs:
        return None
    shared = axes_of(left) <= {*cascade.rows, cascade.axis} and not axes_of(right) & set(cascade.rows)
    return Factors(last, left, right) if shared and isinstance(left, Op) else None


def _narrow(factor: Expr) -> Expr | None:
    """The bytes of which a factor is."""
    if isinstance(factor, Op) and factor.name == "cast" and factor.args[0].dtype in BYTES:
        return factor.args[0]
    return None


def build_apart(cascade: Cascade, derivation: Derivation, schedule: Schedule) -> TileProgram:
    """The two phases, each the resident program of a part of the cascade.

    The schedule's tiles are those of the second phase, which takes the shared axis whole; the first one takes few rows.

    Raises:
        StrategyError: the schedule doesn't fit the outputs.
        ValueError: the cascade has no product of bytes.
    """
    factors = find_factors(cascade)
    if factors is None:
        raise ValueError(f"{cascade.name} has no product of bytes")
    earlier = tuple(r for r in cascade.reductions if r != factors.reduction)
    outputs = {node.tensor for output in cascade.outputs for node in loads(output.value)}
    axes = (*cascade.rows, cascade.axis)
    factor = Tensor(_free("factor", cascade), tuple(a.extent for a in axes), factors.left.dtype)
    made = [Output(factor, axes, axes, factors.left)]
    kept: dict[Expr, Expr] = {}
    for reduction in earlier:
        if reduction.result in outputs:
            tensor = replace(reduction.result, name=_free(f"{reduction.result.name}_kept", cascade))
            made.append(Output(tensor, reduction.axes, reduction.axes, reduction.value))
            kept[reduction.value] = load(tensor, *reduction.axes)
    first = replace(cascade, reductions=earlier, outputs=tuple(made))
    product = op("mul", cast(load(factor, *axes), "int32"), cast(factors.right, "int32"))
    second = replace(
        cascade,
        inputs=(*cascade.inputs, *(output.tensor for output in made)),
        reductions=(replace(factors.reduction, map=product),),
        outputs=tuple(replace(o, value=substitute(o.value, kept)) for o in cascade.outputs),
    )
    rows = {a.name for a in cascade.rows}
    along = tuple((name, min(size, FIRST_ROWS) if name in rows else size) for name, size in schedule.tiles)
    across = tuple(tile for tile in schedule.tiles if tile[0] != cascade.axis.name)
    makes = build_resident(first, derivation, replace(schedule, tiles=along))
    multiplies = build_resident(second, derivation, replace(schedule, tiles=across))
    phases = (*makes.phases, *multiplies.phases)
    return TileProgram(cascade.name, cascade.inputs, multiplies.outputs, makes.outputs, phases, schedule)


def _free(name: str, cascade: Cascade) -> str:
    """A name that nothing in a cascade has."""
    items = (*cascade.inputs, *(r.result for r in cascade.reductions), *(o.tensor for o in cascade.outputs))
    taken = {tensor.name for tensor in items}
    return next(n for n in (f"{name}{k or ''}" for k in range(len(taken) + 1)) if n not in taken)
