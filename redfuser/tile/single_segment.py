"""One block streams the whole axis and corrects its states as it goes."""

from __future__ import annotations

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.tile.common import grid_of, stream_tile, whole, write_outputs
from redfuser.tile.emitter import Emitter
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.recurrence import States


def build_single_segment(cascade: Cascade, derivation: Derivation, schedule: Schedule) -> TileProgram:
    """Fill the states, stream, finish; outputs along the shared axis take a second stream.

    Raises:
        StrategyError: the schedule doesn't fit the outputs.
    """
    emitter = Emitter(cascade, grid_of(cascade, schedule))
    tile = stream_tile(cascade, schedule)
    states = States(emitter, cascade, derivation)
    states.fold(tile, whole(cascade.axis))
    write_outputs(emitter, cascade, states.results, tile)
    outputs = tuple(output.tensor for output in cascade.outputs)
    return TileProgram(cascade.name, cascade.inputs, outputs, (), (emitter.phase(),), schedule)
