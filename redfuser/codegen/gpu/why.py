"""Why an untuned schedule for a GPU is as it is, in a sentence."""

from __future__ import annotations

from math import prod

from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.open_schedule import sizes_to_suit
from redfuser.codegen.gpu.product_schedule import product_shape
from redfuser.expr.binding import at_sizes
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.common import StrategyError, grid_of
from redfuser.tile.strategies.multi_segment import BLOCKS
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from redfuser.tile.untuned.shapes import has_products, stationary_row


def why(cascade: Cascade, schedule: Schedule, target: GpuTarget) -> str:
    """What blocks share out, and how many of them there are for how many multiprocessors.

    Args:
        schedule: one of :func:`redfuser.codegen.gpu.schedule.candidates`.
    """
    sizes = sizes_to_suit(cascade)
    if sizes:
        chosen = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        return f"{why(at_sizes(cascade, sizes), schedule, target)}; chosen for {chosen}"
    try:
        grid = grid_of(cascade, schedule, states=schedule.segments > 1)
    except StrategyError:  # It is listed all the same, and refused when it is tried.
        return _work(cascade, schedule)
    blocks = prod(tile.count for tile in grid)
    counted = f"{blocks} {'block' if blocks == 1 else 'blocks'} for {target.multiprocessors} multiprocessors"
    return f"{_work(cascade, schedule)}; {counted}{_stream(cascade, schedule)}"


def _work(cascade: Cascade, schedule: Schedule) -> str:
    """What a block takes on."""
    shape = product_shape(cascade)
    if shape is not None:
        tile = f"{schedule.tile(shape.rows)} by {schedule.tile(shape.columns)}"
        return f"{tile} of {shape.rows.extent} by {shape.columns.extent} results a block, by the model of products"
    shared = stationary_row(cascade) if has_products(cascade) else None
    if shared is not None:
        return f"{schedule.tile(shared)} points of {shared.name} share each load"
    rows = prod(schedule.tile(axis) for axis in cascade.rows)
    return f"{rows} {'row' if rows == 1 else 'rows'} a block of {dict(schedule.options)['threads']} threads"


def _stream(cascade: Cascade, schedule: Schedule) -> str:
    """What becomes of the shared axis."""
    name = cascade.axis.name
    if BLOCKS in dict(schedule.options):
        return f", and where there are fewer, {name} is cut in up to {schedule.segments} segments"
    if schedule.strategy == "multi-segment":
        return f", so {name} is cut in {schedule.segments} segments"
    if schedule.strategy == "single-segment":
        skipped = ", without the tiles that the mask hides" if SKIP_HIDDEN in dict(schedule.options) else ""
        return f", which stream {name}{skipped}"
    if has_products(cascade):
        return f"; no incremental form, so {name} is gone through once a pass"
    return "; the row stays in registers"
