"""The signs of mathematics in plain characters, for terminals and logs that have no others."""

from __future__ import annotations

import re

from redfuser.report.document import Block, Document, Section

_SIGNS = str.maketrans(
    {
        **{"−": "-", "·": "*", "≤": "<=", "≥": ">=", "≠": "!=", "∧": "and", "∨": "or", "∞": "inf"},
        **{"Σ": "sum", "Π": "prod", "√": "sqrt", "←": "<-", "ρ": "rho", "⊕": "(+)", "⊗": "(*)", "′": "'"},
        "\u0303": "~",
    }
)
_SUBSCRIPT = re.compile("[₀-₉]+")
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPT = re.compile(f"[{_SUPERSCRIPTS}]+")


def to_ascii(text: str) -> str:
    """``text`` with ``max0_1~`` for a subscript and a tilde, ``sum`` for Σ and so on.

    Characters that are no signs of mathematics, in names from the model, become ``\\uXXXX``.
    """
    text = _SUBSCRIPT.sub(lambda match: "_" + "".join(str(ord(c) - ord("₀")) for c in match[0]), text)
    text = _SUPERSCRIPT.sub(lambda match: "^" + "".join(str(_SUPERSCRIPTS.index(c)) for c in match[0]), text)
    return text.translate(_SIGNS).encode("ascii", "backslashreplace").decode()


def ascii_document(document: Document) -> Document:
    """A document in plain characters."""

    def lines(items: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(to_ascii, items))

    return Document(
        to_ascii(document.title),
        lines(document.lead),
        lines(document.header),
        tuple(map(lines, document.rows)),
        tuple(
            Section(to_ascii(s.title), tuple(Block(to_ascii(b.title), lines(b.lines)) for b in s.blocks))
            for s in document.sections
        ),
    )
