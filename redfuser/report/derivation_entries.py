"""Report entries for the mathematics of a cascade: its reductions, their derivation, and the certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from redfuser.cascade.model import IDENTITIES
from redfuser.reason import Reason


@dataclass(frozen=True)
class ReductionEntry:
    """``name[axes] = op over `over` of map``; axes are written ``name<extent``."""

    name: str
    op: str
    axes: tuple[str, ...]
    over: str
    map: str


@dataclass(frozen=True)
class StateEntry:
    """One number of a reduction's state.

    Args:
        name: of the state component.
        combiner: ⊕.
        identity: of ⊕, as text.
        element: what one element contributes.
        correction: its row of M at the base points: the factor that each component of the state is re-based by, or
            null; the point it is re-based from is marked ``′``.
    """

    name: str
    combiner: str
    identity: str
    element: str
    correction: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        if self.combiner not in IDENTITIES:
            raise ValueError(f"{self.name}: unknown combiner {self.combiner!r}")


@dataclass(frozen=True)
class RecurrenceEntry:
    """How one reduction streams, as it is written on paper.

    Args:
        result: name of the reduction.
        definition: ``t = Σ_l exp(s − m)``.
        transform: ⊗, the sign of it.
        basis: G alone, or the functions f of finite rank; empty for a map that uses no earlier result.
        factor: H, or null for 1.
        matrix: ρ alone, or M.
        state: its numbers.
        base: what later elements are taken against in place of the value, or null.
        finish: its value from the state.
    """

    result: str
    definition: str
    transform: str
    basis: tuple[str, ...]
    factor: str | None
    matrix: tuple[tuple[str, ...], ...]
    state: tuple[StateEntry, ...]
    base: str | None
    finish: str

    def __post_init__(self) -> None:
        if any(len(part.correction) not in (0, len(self.state)) for part in self.state):
            raise ValueError(f"{self.result}: a correction has one factor for each number of the state")
        if not all(self.matrix):
            raise ValueError(f"{self.result}: a row of the matrix is empty")


@dataclass(frozen=True)
class ProofEntry:
    """A claim of the certificate that was proved, and the means."""

    claim: str
    by: str


@dataclass(frozen=True)
class WitnessEntry:
    """The float64 check of the recurrences on one kind of adversarial data: number of elements, largest error."""

    scenario: str
    elements: int
    error: float


@dataclass(frozen=True)
class BoundEntry:
    """How far reordered rounding can take a result from the exact one; ``share`` of it was met in the check."""

    result: str
    bound: str
    share: float


@dataclass(frozen=True)
class DerivationEntry:
    """The algebra's verdict.

    Args:
        form: ``rank-1``, ``finite-rank`` or ``resident``.
        where: letters that stand for compound values.
        recurrences: one for each reduction of the shared axis; empty for ``resident``.
        proofs: the certificate: identities and laws.
        witnesses: the certificate: what was tried in float64.
        bounds: the error bounds of reordered rounding.
        obstacle: for ``resident``: why the axis can't be streamed.
    """

    form: str
    where: Mapping[str, str] = field(default_factory=dict)
    recurrences: tuple[RecurrenceEntry, ...] = ()
    proofs: tuple[ProofEntry, ...] = ()
    witnesses: tuple[WitnessEntry, ...] = ()
    bounds: tuple[BoundEntry, ...] = ()
    obstacle: Reason | None = None
