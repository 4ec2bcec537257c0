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
    """

    result: Tensor
    transform: str
    state: tuple[Component, ...]
    base: Expr | None
    finish: Expr

    def __str__(self) -> str:
        lines = [f"{self.result.name}: state under {self.transform}"]
        lines += [f"    {component}" for component in self.state]
        if self.base is not None:
            lines.append(f"    base   {self.base}")
        lines.append(f"    finish {self.finish}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Proof:
    """One identity that was established: what, by which means, and for numeric witnesses the largest error seen."""

    claim: str
    by: str
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.claim} [{self.by}]" + ("" if self.error is None else f" error {self.error:.2e}")


@dataclass(frozen=True)
class Derivation:
    """The algebra's verdict on one cascade.

    Args:
        cascade: name of the cascade.
        form: ``rank-1``, ``finite-rank`` or ``resident`` (passes one after another over a row held on chip).
        recurrences: the incremental form, one for each reduction in the cascade's order; empty for ``resident``.
        exactness: ``exact`` or ``reordered-rounding`` (METHOD §3).
        proofs: the certificate.
        obstacle: for ``resident``: why no incremental form exists.
    """

    cascade: str
    form: str
    recurrences: tuple[Recurrence, ...]
    exactness: str
    proofs: tuple[Proof, ...]
    obstacle: Reason | None = None

    @property
    def incremental(self) -> bool:
        """Whether the axis can be streamed and split into segments."""
        return bool(self.recurrences)

    def __str__(self) -> str:
        lines = [f"derivation of {self.cascade}: {self.form}, {self.exactness}"]
        lines += [f"  {item}" for item in self.recurrences]
        lines += [f"  proved {item}" for item in self.proofs]
        if self.obstacle:
            lines.append(f"  obstacle {self.obstacle}")
        return "\n".join(lines)
