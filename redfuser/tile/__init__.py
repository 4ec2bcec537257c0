"""Tile programs: the IR and its verifier, the strategies that write it, and the NumPy reference."""

from redfuser.tile.interpreter import interpret
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.schedule import Choice, default_schedule
from redfuser.tile.strategies.build import StrategyError, build
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
