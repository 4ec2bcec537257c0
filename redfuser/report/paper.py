"""A derivation laid out as a page: map, state, tile, merge, finish, and the certificate."""

from __future__ import annotations

from collections.abc import Iterator

from redfuser.report.derivation_entries import DerivationEntry, RecurrenceEntry, StateEntry
from redfuser.report.derivations import fold
from redfuser.report.writing import PRIME, TILDE

#: how one value under ⊗ with a factor is written, where it isn't the sign between the two
_BY_NAME = frozenset({"max", "min"})


def derivation_lines(entry: DerivationEntry, exactness: str | None) -> Iterator[str]:
    """The lines of the page."""
    yield entry.form + (f", {exactness}" if exactness else "")
    for name, text in entry.where.items():
        yield f"where   {name} = {text}"
    for item in entry.recurrences:
        yield f"map     {item.definition}"
        yield from _split(item)
    if entry.recurrences:
        yield from _stream(entry)
    if entry.obstacle is not None:
        yield f"no incremental form: {entry.obstacle.text} [{entry.obstacle.code}]"
        if entry.obstacle.witness:
            yield f"  witness: {entry.obstacle.witness}"
    yield from _certificate(entry)


def _split(item: RecurrenceEntry) -> Iterator[str]:
    if len(item.basis) == 1:
        parts = [f"G = {item.basis[0]}", f"H = {item.factor or 1}", *(f"ρ = {row[0]}" for row in item.matrix)]
        yield f"        {';  '.join(parts)}"
    elif item.basis:
        yield f"        f = ({', '.join(item.basis)})" + (f";  at the end ·{item.factor}" if item.factor else "")
        for row in item.matrix:
            yield f"        M: {' | '.join(row)}"


def _stream(entry: DerivationEntry) -> Iterator[str]:
    parts = [part for item in entry.recurrences for part in item.state]
    yield f"state   {', '.join(f'{part.name} = {part.identity}' for part in parts)}"
    for item in entry.recurrences:
        for part in item.state:
            tile = fold(part.combiner, "tile", part.element)
            yield f"tile    {part.name} ← {_join(part.combiner, [*_rebased(item, part, '', PRIME), tile])}"
        if item.base is not None:
            yield f"        {item.result}{TILDE} ← {item.base}"
    for item in entry.recurrences:
        for part in item.state:
            pieces = [*_rebased(item, part, "_A", "_A"), *_rebased(item, part, "_B", "_B")]
            yield f"merge   {part.name} ← {_join(part.combiner, pieces)}"
        if item.base is not None:
            yield f"        {item.result}{TILDE} ← {item.base}"
    for item in entry.recurrences:
        if item.finish != item.result:
            yield f"finish  {item.result} ← {item.finish}"


def _rebased(item: RecurrenceEntry, part: StateEntry, mark: str, origin: str) -> list[str]:
    """Each component that enters ``part`` under ⊗ with its factor; a factor of 1 says nothing.

    Args:
        mark: of the state re-based.
        origin: of the point it is re-based from.
    """
    if not part.correction:
        return [f"{part.name}{mark}"]
    pairs = zip(part.correction, item.state, strict=True)
    return [
        _corrected(item.transform, f"{source.name}{mark}", factor.replace(PRIME, origin))
        for factor, source in pairs
        if factor is not None
    ]


def _corrected(transform: str, value: str, factor: str) -> str:
    if factor == "1" and transform == "·":
        return value
    return f"{transform}({value}, {factor})" if transform in _BY_NAME else f"{value}{transform}{factor}"


def _join(combiner: str, parts: list[str]) -> str:
    if combiner == "sum":
        return " + ".join(parts)
    return "·".join(parts) if combiner == "prod" else f"{combiner}({', '.join(parts)})"


def _certificate(entry: DerivationEntry) -> Iterator[str]:
    for proof in entry.proofs:
        yield f"proved  {proof.claim} ({proof.by})"
    for bound in entry.bounds:
        yield f"bound   {bound.bound}; {bound.share:.0%} of it met in the check"
    for count in dict.fromkeys(witness.elements for witness in entry.witnesses):
        seen = [witness for witness in entry.witnesses if witness.elements == count]
        errors = ", ".join(f"{witness.scenario} {f'{witness.error:.0e}' if witness.error else 0}" for witness in seen)
        elements = "1 element" if count == 1 else f"{count} elements"
        yield f"checked {elements} in float64, folded and merged; largest error: {errors}"
