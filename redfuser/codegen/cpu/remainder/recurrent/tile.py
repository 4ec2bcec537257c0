"""How much of a recurrence's step is summed up in registers at once. No TVM."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.codegen.cpu.machine import Machine
from redfuser.recurrent.recurrence import Recurrence

#: Sums that are under way at once, at least: fewer would wait for each other.
LEAST_SUMS = 8

#: Rows of the batch that are summed up together, at most.
MOST_ROWS = 6


@dataclass(frozen=True)
class Tile:
    """What a task sums up at once.

    Args:
        rows: of the batch.
        vectors: of units.
    """

    rows: int
    vectors: int


def choose_tile(recurrence: Recurrence, machine: Machine, batch: int | None) -> Tile:
    """The tile for a batch; None for one that is known on the call only."""
    gates = max(map(len, recurrence.phases))
    room = machine.registers - 1
    groups = recurrence.units // machine.lanes
    rows = max(min(MOST_ROWS, room // (gates + 1)), 1)
    if batch:
        rows = -(-batch // -(-batch // rows))  # even parts
    fitting = [n for n in range(1, groups + 1) if groups % n == 0 and (n == 1 or rows * (n * gates + 1) <= room)]
    return Tile(rows, next((n for n in fitting if rows * n * gates >= LEAST_SUMS), fitting[-1]))
