"""From a cascade to its incremental form: monoids, separation, finite rank, certificate (DESIGN, METHOD §2-4)."""

from __future__ import annotations

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade

Memo = dict[tuple[Cascade, str], Derivation]


def derive(cascade: Cascade, numerics: str = "exact", memo: Memo | None = None) -> Derivation:
    """How ``cascade`` is computed in one pass over its axis, with the proof; or why it isn't.

    Args:
        cascade: a verified cascade.
        numerics: ``exact`` allows floating-point re-association only; ``relaxed`` also rounding against a
            running scale.
        memo: derivations found earlier, by the cascade up to names; pass one dict for a whole model.

    Returns:
        A derivation of form ``rank-1`` or ``finite-rank``, or ``resident`` with an obstacle.

    Raises:
        ValueError: an unknown ``numerics``.
    """
    from redfuser.algebra.canonical import canonical, renamed
    from redfuser.algebra.deriver import derive_cascade

    if numerics not in ("exact", "relaxed"):
        raise ValueError(f"numerics is exact or relaxed, not {numerics}")
    memo = {} if memo is None else memo
    key, names = canonical(cascade)
    if (key, numerics) not in memo:
        memo[key, numerics] = derive_cascade(key, numerics == "relaxed")
    return renamed(memo[key, numerics], cascade.name, names.inverse)
