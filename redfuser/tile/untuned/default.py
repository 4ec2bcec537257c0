"""The untuned schedule for CPUs, and why.

By rule, and not the first of the cost model's ranking: that one takes a survey of the whole space, is for known sizes
only, and can't be told in a sentence. ``python -m tests.bench.tuning`` holds both against the best of all candidates.
"""

from __future__ import annotations

from dataclasses import replace

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr.binding import at_largest, dims_in
from redfuser.extents import is_symbolic
from redfuser.targets import CpuTarget
from redfuser.tile.strategies.apart import find_factors
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.skipping.hidden import NOTHING, Hidden, find_hidden
from redfuser.tile.untuned.bytes import COLUMN_TILE, byte_product, columns_of
from redfuser.tile.untuned.choice import Choice
from redfuser.tile.untuned.products import Products
from redfuser.tile.untuned.rows import Rows
from redfuser.tile.untuned.shapes import has_products, stationary_row

#: Most points of a symbolic axis that are streamed at once.
SYMBOLIC_CHUNK = 256


def default_schedule(cascade: Cascade, derivation: Derivation, target: CpuTarget) -> Choice:
    """The choice without measuring, from shapes and caches alone; for the largest sizes where some are symbolic.

    Args:
        cascade: verified.
        derivation: its verdict; without an incremental form only ``resident`` is chosen.
        target: the CPU.
    """
    factors = find_factors(cascade) if target.multiplies_bytes else None
    if factors is not None and columns_of(factors) >= COLUMN_TILE // 4:
        return byte_product(cascade, factors, target)
    products = has_products(cascade)
    hidden = find_hidden(cascade, derivation) if products and streams(cascade, derivation) else NOTHING
    if dims_in(cascade):
        whole = is_symbolic(cascade.axis.extent)
        return _symbolic(cascade, _choose(at_largest(cascade), at_largest(derivation), target, hidden, whole))
    return _choose(cascade, derivation, target, hidden)


def _choose(cascade: Cascade, derivation: Derivation, target: CpuTarget, hidden: Hidden, whole: bool = False) -> Choice:
    incremental = streams(cascade, derivation)
    if has_products(cascade):
        return Products(cascade, incremental, target, stationary_row(cascade), hidden, whole).choose()
    return Rows(cascade, incremental, target, whole).choose()


def _symbolic(cascade: Cascade, choice: Choice) -> Choice:
    """A choice made for the largest sizes, for all of them: tiles that what is left over can be cut down from."""
    shared, schedule = cascade.axis, choice.schedule
    tiles = dict(schedule.tiles)
    if is_symbolic(shared.extent):
        tiles[shared.name] = min(tiles[shared.name], SYMBOLIC_CHUNK)
    return replace(choice, schedule=replace(schedule, tiles=tuple(tiles.items())))
