"""A derivation as text, in the notation of a page of mathematics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from redfuser.algebra.derivation import Bound, Component, Derivation, Recurrence
from redfuser.algebra.formulas.dependence import Kinds
from redfuser.algebra.monoids import TRANSFORMS, monoid
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Expr, Op, Tensor, loads
from redfuser.reason import Reason
from redfuser.report.derivation_entries import (
    BoundEntry,
    DerivationEntry,
    ProofEntry,
    RecurrenceEntry,
    StateEntry,
    WitnessEntry,
)
from redfuser.report.writing import Writer

_LETTERS = "suvwxyzabcdefgh"


def describe_derivation(cascade: Cascade, derivation: Derivation, names: Iterable[str] = ()) -> DerivationEntry:
    """A derivation as it is written on paper.

    Args:
        cascade: as it was given to ``derive``.
        derivation: of it.
        names: what the inputs of ``cascade`` are called in the model; as they are where there are none.
    """
    called = dict(zip((tensor.name for tensor in cascade.inputs), names, strict=False))
    plain = Writer(tensors=called, bare=_unambiguous(cascade))
    shortened = _abbreviations(cascade, frozenset(called.values()))
    writer = replace(plain, names=shortened)
    pairs = zip(cascade.reductions, derivation.recurrences, strict=False)
    return DerivationEntry(
        form=derivation.form,
        where={name: plain.write(expr) for expr, name in shortened.items()} if derivation.incremental else {},
        recurrences=tuple(_recurrence(reduction, recurrence, writer) for reduction, recurrence in pairs),
        proofs=tuple(ProofEntry(proof.claim, proof.by) for proof in derivation.proofs),
        witnesses=tuple(WitnessEntry(w.scenario, w.elements, w.error) for w in derivation.witnesses),
        bounds=tuple(_bound(bound, cascade, writer) for bound in derivation.bounds),
        obstacle=derivation.obstacle and _renamed(derivation.obstacle, called),
    )


def _renamed(obstacle: Reason, called: Mapping[str, str]) -> Reason:
    """An obstacle whose witness calls inputs what they are called in the model."""
    return replace(obstacle, witness=re.sub(r"\w+", lambda word: called.get(word[0], word[0]), obstacle.witness))


def fold(combiner: str, where: str, element: str) -> str:
    """``Σ_l element``."""
    return f"{monoid(combiner).symbol}_{where} {element}"


def _unambiguous(cascade: Cascade) -> frozenset[str]:
    """Names of the tensors that are read at one place only: their indices say nothing. Results have their own axes."""
    places: dict[Tensor, set[tuple[Expr, ...]]] = {}
    for reduction in cascade.reductions:
        for node in loads(reduction.map):
            places.setdefault(node.tensor, set()).add(node.indices)
    results = {reduction.result.name for reduction in cascade.reductions}
    return frozenset(tensor.name for tensor, indices in places.items() if len(indices) == 1) | results


def _abbreviations(cascade: Cascade, taken: frozenset[str]) -> dict[Expr, str]:
    """Letters for compound values of the element that several places of the cascade share."""
    results = frozenset(r.result for r in cascade.reductions)
    taken |= {tensor.name for tensor in (*cascade.inputs, *results)} | {p.result.name for p in cascade.producers}
    count: dict[Expr, int] = {}
    for reduction in cascade.reductions:
        for node in dict.fromkeys(_largest_elements(reduction, results)):
            count[node] = count.get(node, 0) + 1
    letters = (letter for letter in _LETTERS if letter not in taken)
    return dict(zip((node for node, times in count.items() if times > 1), letters, strict=False))


def _largest_elements(reduction: Reduction, results: frozenset[Tensor]) -> Iterator[Expr]:
    """The largest compound parts of a map that the element alone determines."""
    kinds = Kinds.of(reduction.map, reduction.over, results)
    for node in (reduction.map, *(child for above in kinds.depending for child in above.children)):
        compound = isinstance(node, Op) and node.name != "cast"
        if compound and node in kinds.varying and node not in kinds.depending:
            yield node


def _recurrence(reduction: Reduction, recurrence: Recurrence, writer: Writer) -> RecurrenceEntry:
    split, name = recurrence.split, reduction.result.name
    element = fold(reduction.combiner, reduction.over.name, writer.term(reduction.map))
    # A state of one number goes by the name of its result.
    only = {f"{name}.0": name} if len(recurrence.state) == 1 else {}
    own = replace(writer, tensors={**writer.tensors, **only})
    return RecurrenceEntry(
        result=name,
        definition=f"{name} = {element}",
        transform=TRANSFORMS[recurrence.transform].symbol,
        basis=tuple(map(writer.write, split.basis)) if split else (),
        factor=writer.write(split.factor) if split and split.factor is not None else None,
        matrix=tuple(tuple(map(writer.write, row)) for row in split.matrix) if split else (),
        state=tuple(_component(part, recurrence.transform, own) for part in recurrence.state),
        base=None if recurrence.base is None else own.write(recurrence.base),
        finish=own.write(recurrence.finish),
    )


def _component(part: Component, transform: str, writer: Writer) -> StateEntry:
    factor = writer.factor if transform == "pow" else writer.term
    return StateEntry(
        name=writer.tensor(part.tensor.name),
        combiner=part.combiner,
        identity=writer.number(IDENTITIES[part.combiner]),
        element=writer.term(part.element),
        correction=tuple(None if entry is None else factor(entry) for entry in part.correction),
    )


def _bound(bound: Bound, cascade: Cascade, writer: Writer) -> BoundEntry:
    total = fold("sum", cascade.axis.name, writer.term(bound.element))
    return BoundEntry(bound.result, f"|{bound.result} − exact {bound.result}| ≤ {total}", bound.share)
