"""A derivation as a person would write it on paper: map, state, tile, merge, finish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from redfuser.algebra import names
from redfuser.algebra.analysis import Analysis
from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.algebra.deriver import analyses_of
from redfuser.algebra.monoids import MONOIDS, TRANSFORMS
from redfuser.algebra.printing import to_expr
from redfuser.algebra.separation import origin
from redfuser.algebra.symbolic import Formula, Kinds
from redfuser.algebra.writing import Writer
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Expr, Load, Op, Tensor, load, substitute, walk

_LETTERS = "suvwxyzabcdefgh"
_INVALID = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
_DTYPE = "float64"


def describe(cascade: Cascade, derivation: Derivation, ascii: bool = False) -> dict[str, Any]:
    """The derivation as JSON-ready data.

    Args:
        cascade: as it was given to ``derive``.
        derivation: of it.
        ascii: plain characters only.

    Returns:
        ``form``, ``exactness``, ``where`` (abbreviations), ``reductions`` and ``text``, the whole as a page. Each
        reduction has ``name`` and ``definition``; unless the form is resident also ``transform``, ``G`` and ``H`` or
        ``basis`` and ``M``, ``rho``, ``state``, ``identity``, ``base`` and ``finish``. In ``rho`` and ``M`` the point
        re-based from is marked ``_old``.
    """
    shortened = _abbreviations(cascade)
    writer = Writer(ascii, shortened)
    described: dict[str, Any] = {
        "form": derivation.form,
        "exactness": derivation.exactness,
        "where": {name: Writer(ascii).write(expr) for expr, name in shortened.items()},
        "reductions": [{"name": r.result.name, "definition": _definition(r, writer)} for r in cascade.reductions],
    }
    if derivation.incremental:
        proofs = analyses_of(cascade, derivation.exactness)
        for entry, analysis, recurrence in zip(described["reductions"], proofs, derivation.recurrences, strict=True):
            entry.update(_recurrence(recurrence, writer) | _algebra(analysis, cascade, writer))
    page = _page(cascade, derivation, described, writer)
    return {**described, "text": "\n".join(page)}


def _abbreviations(cascade: Cascade) -> dict[Expr, str]:
    """Letters for compound values of the element that several places of the cascade share."""
    results = frozenset(r.result for r in cascade.reductions)
    taken = {tensor.name for tensor in (*cascade.inputs, *results)} | {p.result.name for p in cascade.producers}
    count: dict[Expr, int] = {}
    for reduction in cascade.reductions:
        kinds = Kinds.of(reduction.map, cascade.axis, results)
        mixed = [child for node in walk(reduction.map) if node in kinds.depending for child in node.children]
        for node in dict.fromkeys([*mixed, reduction.map]):
            if isinstance(node, Op) and node in kinds.varying and node not in kinds.depending:
                count[node] = count.get(node, 0) + 1
    letters = (letter for letter in _LETTERS if letter not in taken)
    return dict(zip((node for node, times in count.items() if times > 1), letters, strict=False))


def _definition(reduction: Reduction, writer: Writer) -> str:
    return f"{reduction.result.name} = {_fold(reduction, reduction.over.name, reduction.map, writer)}"


def _fold(reduction: Reduction, where: str, element: Expr, writer: Writer, combiner: str | None = None) -> str:
    monoid = MONOIDS[combiner or reduction.combiner]
    return f"{writer.pick(monoid.symbol, monoid.name)}_{where} {writer.term(element)}"


def _recurrence(recurrence: Recurrence, writer: Writer) -> dict[str, Any]:
    return {
        "transform": writer.pick(TRANSFORMS[recurrence.transform].symbol, recurrence.transform),
        "state": [_component(part, writer) for part in recurrence.state],
        "identity": [writer.number(IDENTITIES[part.combiner]) for part in recurrence.state],
        "base": None if recurrence.base is None else writer.write(recurrence.base),
        "finish": writer.write(recurrence.finish),
    }


def _component(part: Component, writer: Writer) -> dict[str, Any]:
    return {
        "name": writer.tensor(part.tensor.name),
        "combiner": part.combiner,
        "element": writer.write(part.element),
        "correction": [None if factor is None else writer.write(factor) for factor in part.correction],
    }


def _algebra(analysis: Analysis, cascade: Cascade, writer: Writer) -> dict[str, Any]:
    """G, H and ρ, or the basis and M."""
    separation, closure = analysis.separation, analysis.closure
    if closure.rank > 1:
        matrix = [
            [_formula(entry, analysis, cascade, writer) for entry in closure.matrix.row(n)] for n in range(closure.rank)
        ]
        return {"basis": [_formula(f, analysis, cascade, writer) for f in closure.basis], "M": matrix, "rho": None}
    zero = dict.fromkeys(separation.streamed, sympy.S.Zero)
    element = separation.core.xreplace(zero)
    factor = separation.rho.xreplace({origin(symbol): sympy.S.Zero for symbol in separation.streamed})
    if element == 0 or element.has(*_INVALID) or factor.has(*_INVALID):
        element, factor = separation.core, sympy.S.One
    whole = factor * separation.factor if separation.transform == "mul" else separation.factor
    rho = _formula(separation.rho, analysis, cascade, writer) if separation.streamed else None
    return {
        "G": _formula(element, analysis, cascade, writer),
        "H": _formula(whole, analysis, cascade, writer) if analysis.separation.identity else None,
        "rho": rho,
    }


def _formula(formula: Formula, analysis: Analysis, cascade: Cascade, writer: Writer) -> str:
    """A formula, its symbols written as what they stand for."""
    before = {r.value: names.previous(r.value) for r in cascade.reductions}
    leaves: dict[sympy.Symbol, Expr] = dict(analysis.reading.leaves)
    for symbol, atom in analysis.streamed.items():
        leaves[origin(symbol)] = substitute(atom, before)
    stand_ins: dict[sympy.Symbol, Load] = {s: load(Tensor(s.name, (), _DTYPE)) for s in leaves}
    # Stand-ins of one type keep casts out of the text.
    expr = to_expr(sympy.sympify(formula), stand_ins, _DTYPE)
    return writer.write(substitute(expr, {stand_ins[symbol]: leaf for symbol, leaf in leaves.items()}))


def _page(cascade: Cascade, derivation: Derivation, described: dict[str, Any], writer: Writer) -> Iterator[str]:
    yield f"{cascade.name}: {derivation.form}, {derivation.exactness}"
    for name, text in described["where"].items():
        yield f"  where   {name} = {text}"
    for entry in described["reductions"]:
        yield f"  map     {entry['definition']}"
        parts = [f"{key} = {entry[key]}" for key in ("G", "H") if entry.get(key)] if entry.get("H") else []
        parts += [f"{writer.pick('ρ', 'rho')} = {entry['rho']}"] if entry.get("rho") else []
        parts += [f"f = ({', '.join(entry['basis'])})"] if "basis" in entry else []
        if parts:
            yield f"          {';  '.join(parts)}"
        for row in entry.get("M", ()):
            yield f"          M: {' | '.join(row)}"
    if derivation.obstacle is not None:
        yield f"  resident because {derivation.obstacle}"
    else:
        yield from _schedule(cascade, derivation, described, writer)


def _schedule(cascade: Cascade, derivation: Derivation, described: dict[str, Any], writer: Writer) -> Iterator[str]:
    entries = described["reductions"]
    starts = [f"{p['name']} = {i}" for entry in entries for p, i in zip(entry["state"], entry["identity"], strict=True)]
    yield f"  state   {', '.join(starts)}"
    for reduction, recurrence in zip(cascade.reductions, derivation.recurrences, strict=True):
        for part in recurrence.state:
            combined = [
                *_rebased(part, recurrence, writer),
                _fold(reduction, "tile", part.element, writer, part.combiner),
            ]
            name, arrow = writer.tensor(part.tensor.name), writer.pick("←", "<-")
            yield f"  tile    {name} {arrow} {_join(part.combiner, combined)}"
        if recurrence.base is not None:
            base = writer.tensor(f"{reduction.result.name}.base")
            yield f"          {base} {writer.pick('←', '<-')} {writer.write(recurrence.base)}"
    yield "  merge   two segments: re-base each from its own base points to the common ones as for a tile, then combine"
    for entry in entries:
        yield f"  finish  {entry['name']} = {entry['finish']}"


def _rebased(part: Component, recurrence: Recurrence, writer: Writer) -> list[str]:
    if not part.correction:
        return [writer.tensor(part.tensor.name)]
    sign = writer.pick(
        TRANSFORMS[recurrence.transform].symbol, "*" if recurrence.transform == "mul" else recurrence.transform
    )
    terms = []
    for factor, source in zip(part.correction, recurrence.state, strict=True):
        if factor is not None:
            name, text = writer.tensor(source.tensor.name), writer.factor(factor)
            terms.append(name if text == "1" else f"{name}{sign}{text}")
    return terms


def _join(combiner: str, parts: list[str]) -> str:
    if combiner == "sum":
        return " + ".join(parts)
    return f"{combiner}({', '.join(parts)})"
