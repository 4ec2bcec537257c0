"""What the renderings share: a report or a diff as headings, a table and lines of plain text."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

#: format characters (bidirectional overrides, zero-width joiners …), controls, surrogates, line separators
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True)
class Block:
    """A titled list of lines."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """Everything about one cascade."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A rendering-independent page.

    Args:
        title: of the page.
        lead: sentences before the table.
        header: column names.
        rows: cells; untrusted, like all text here: a layout escapes each piece with :func:`plain` and its own rule.
        sections: details.
    """

    title: str
    lead: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sections: tuple[Section, ...]


def plain(text: str) -> str:
    """One line of printable text: what could move a cursor or reorder text becomes ``\\x1b`` and the like."""
    return "".join(_printable(character) for character in text)


def _printable(character: str) -> str:
    if unicodedata.category(character) not in UNPRINTABLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
