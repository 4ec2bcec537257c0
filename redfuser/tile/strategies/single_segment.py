"""One block streams the whole axis and corrects its states as it goes."""

from __future__ import annotations

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.common import grid_of, stream_tile, whole, write_outputs
from redfuser.tile.strategies.emitter import Emitter
from redfuser.tile.strategies.recurrence import States
from redfuser.tile.strategies.skipping.narrowing import plan_skipping


def build_single_segment(cascade: Cascade, derivation: Derivation, schedule: Schedule) -> TileProgram:
    """Fill the states, stream, finish; outputs along the shared axis take a second stream.

    Raises:
        StrategyError: the schedule doesn't fit the outputs.
    """
    grid = grid_of(cascade, schedule)
    skipping = plan_skipping(cascade, derivation, schedule, grid)
    emitter = Emitter(cascade, grid)
    tile = stream_tile(cascade, schedule)
    states = States(emitter, cascade, derivation)
    stream = skipping.narrow(whole(cascade.axis), tile)
    states.fold(tile, stream.bounds)
    write_outputs(emitter, cascade, states.results, tile)
    outputs = tuple(output.tensor for output in cascade.outputs)
    phases = (*stream.phases, emitter.phase())
    return TileProgram(cascade.name, cascade.inputs, outputs, stream.workspaces, phases, schedule, stream.derived)
