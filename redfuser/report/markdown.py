"""A document as Markdown: for a pull request or a build summary."""

from __future__ import annotations

import re
from collections.abc import Iterable

from redfuser.report.document import Document, plain


def render(document: Document) -> str:
    """GitHub-flavoured Markdown, ending in a newline."""
    lines = [f"# {escape(document.title)}", ""]
    lines += [f"- {escape(line)}" for line in document.lead]
    if document.rows:
        lines += ["", _row(document.header), _row("---" for _ in document.header)]
        lines += [_row(map(escape, row)) for row in document.rows]
    for section in document.sections:
        lines += ["", f"## {escape(section.title)}"]
        for block in section.blocks:
            lines += ["", f"{escape(block.title)}:", "", *_verbatim(block.lines)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is; addresses are no links."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!@]|:(?=//)|(?<=www)\.)", r"\\\1", plain(text), flags=re.IGNORECASE)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _verbatim(lines: tuple[str, ...]) -> list[str]:
    body = [plain(line) for line in lines]
    longest = max((len(run) for line in body for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *body, fence]
