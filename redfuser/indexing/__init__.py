"""Index arithmetic: simplification, digits of an axis, and inversion of reshapes and transposes.

Reshapes, transposes and broadcasts lower to floor division and remainder of affine sums. An index is
kept here as a *linear form* over atoms with known ranges; an axis that is only used through
``axis // a`` and ``axis % b`` is split into mixed-radix *digits*, after which every index is affine.
"""

from __future__ import annotations

from redfuser.indexing.digits import compose, coordinates, digits, invert
from redfuser.indexing.linear import Linear, linear
from redfuser.indexing.simplify import replace, simplify

__all__ = ["Linear", "compose", "coordinates", "digits", "invert", "linear", "replace", "simplify"]
