"""Tile programs: the IR and its verifier, the strategies that write it, and the NumPy reference."""

from redfuser.tile.interpreter import interpret
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.build import StrategyError, build
from redfuser.tile.untuned.choice import Choice
from redfuser.tile.untuned.default import default_schedule
from redfuser.tile.verifier import TileError, verify

__all__ = [
    "Choice",
    "Schedule",
    "StrategyError",
    "TileError",
    "TileProgram",
    "build",
    "default_schedule",
    "interpret",
    "verify",
]
