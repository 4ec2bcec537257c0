"""The value the algebra hands on: how a cascade is computed in one pass, and why that is right.

Naming of the tensors inside derived expressions, for a reduction whose result is called ``r``
(each is loaded at the reduction's own axes):

* ``r``           its value: final in a ``finish``, the running one in a base
* ``r.base``      the base point that elements are taken against (see :class:`Recurrence.base`)
* ``r.0, r.1, …`` the components of its state
* ``X.previous``  the value of X before the tile now being folded in, for X any of ``r``, ``r.base`` and ``r.0`` …;
  only corrections load these. The running value of ``r`` is its component ``r.0``.
"""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.expr import Expr, Tensor
from redfuser.reason import Reason


@dataclass(frozen=True)
class Component:
    """One number of the state: ``⊕`` over the elements seen of ``element``.

    Args:
        tensor: ``r.0`` and so on.
        combiner: ⊕, a key of ``cascade.model.IDENTITIES``.
        element: contribution of one element; loads inputs, producers and ``.base`` tensors.
        correction: row of M: for each component of the same state, the factor (under ⊗) that re-bases it from the
            previous base point to the new one; ``None`` where it contributes nothing. A state that no base point
            enters has an empty tuple: it is merged as it is.
    """

    tensor: Tensor
    combiner: str
    element: Expr
    correction: tuple[Expr | None, ...] = ()

    def __str__(self) -> str:
        rho = ", ".join("0" if c is None else str(c) for c in self.correction)
        return f"{self.tensor.name}: {self.combiner} of {self.element}" + (f"  rebased by [{rho}]" if rho else "")


@dataclass(frozen=True)
class Split:
    """How a map comes apart, for people to read: nothing is computed from it, so no operand is cast.

    Values of earlier results appear as such; ``X.previous`` is the value a correction starts from.

    Args:
        basis: G alone, or the functions f of finite rank, the map first.
        factor: H, or what a basis leaves to the finish; ``None`` for 1.
        matrix: ρ alone, or M, a row for each of ``basis``; empty where nothing is re-based.
    """

    basis: tuple[Expr, ...]
    factor: Expr | None
    matrix: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class Recurrence:
    """The incremental form of one reduction (METHOD §2-3).

    Folding a tile in: update the base points of the dependencies, then
    ``state[i] = (⊕_j correction[i][j] ⊗ state[j]) ⊕ (⊕ over the tile of element[i])``.
    Two segments merge by the same rule, each re-based from its own base point to the merged one.

    Args:
        result: the reduction's result tensor.
        transform: ⊗ by name: ``mul``, ``add``, ``pow``, ``max``, ``min``; what corrections are applied with.
        state: its components; rank 1 has one.
        base: the base point later elements use in place of this reduction's value, from its running value ``r``
            (a guarded form of it, so that it is always finite); ``None`` if no later reduction needs one.
        finish: the true value from the state and the final values of its dependencies.
        split: how the map comes apart; ``None`` if it uses no earlier result.
    """

    result: Tensor
    transform: str
    state: tuple[Component, ...]
    base: Expr | None
    finish: Expr
    split: Split | None = None

    def __str__(self) -> str:
        lines = [f"{self.result.name}: state under {self.transform}"]
        lines += [f"    {component}" for component in self.state]
        if self.base is not None:
            lines.append(f"    base   {self.base}")
        lines.append(f"    finish {self.finish}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Proof:
    """One identity or law that was established, and by which means."""

    claim: str
    by: str

    def __str__(self) -> str:
        return f"{self.claim} [{self.by}]"


@dataclass(frozen=True)
class Witness:
    """One kind of data on which the recurrences were folded and merged in float64.

    Args:
        scenario: the kind, as ``large mean``.
        elements: how many the axis had.
        error: largest difference from the unfused cascade, as a part of the elements' magnitude.
    """

    scenario: str
    elements: int
    error: float


@dataclass(frozen=True)
class Bound:
    """How far reordered rounding can take a result from the exact one (METHOD §3).

    Args:
        result: name of the reduction.
        element: the bound of the difference is Σ of this: what one rounding step changes.
        share: the largest part of the bound that was met on the witness data; at most 1.
    """

    result: str
    element: Expr
    share: float

    def __str__(self) -> str:
        return f"{self.result}: off by at most the sum of {self.element}"


@dataclass(frozen=True)
class Derivation:
    """The algebra's verdict on one cascade.

    Args:
        cascade: name of the cascade.
        form: ``rank-1``, ``finite-rank`` or ``resident`` (passes one after another over a row held on chip).
        recurrences: the incremental form, one for each reduction in the cascade's order; empty for ``resident``.
        exactness: ``exact`` or ``reordered-rounding`` (METHOD §3).
        proofs: the certificate: what was proved.
        witnesses: the certificate: what was tried.
        bounds: for ``reordered-rounding``: of each result that rounds.
        obstacle: for ``resident``: why no incremental form exists.
    """

    cascade: str
    form: str
    recurrences: tuple[Recurrence, ...]
    exactness: str
    proofs: tuple[Proof, ...]
    obstacle: Reason | None = None
    witnesses: tuple[Witness, ...] = ()
    bounds: tuple[Bound, ...] = ()

    @property
    def incremental(self) -> bool:
        """Whether the axis can be streamed and split into segments."""
        return bool(self.recurrences)

    def __str__(self) -> str:
        lines = [f"derivation of {self.cascade}: {self.form}, {self.exactness}"]
        lines += [f"  {item}" for item in self.recurrences]
        lines += [f"  proved {item}" for item in self.proofs]
        lines += [f"  bound {item}" for item in self.bounds]
        for elements in dict.fromkeys(item.elements for item in self.witnesses):
            kinds = ", ".join(item.scenario for item in self.witnesses if item.elements == elements)
            lines.append(f"  checked {elements} elements: {kinds}")
        if self.obstacle:
            lines.append(f"  obstacle {self.obstacle}")
        return "\n".join(lines)
