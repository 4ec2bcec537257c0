"""A document for a terminal or a log."""

from __future__ import annotations

from io import StringIO

from redfuser.report.ascii import ascii_document
from redfuser.report.document import Document, Section, plain

STYLES = {"fused": "green", "unfused": "yellow", "better": "green", "worse": "red"}


def render(
    document: Document, *, details: bool = False, width: int = 120, color: bool = False, ascii: bool = False
) -> str:
    """The lead and the table; with ``details`` also every section. Ends in a newline.

    Args:
        ascii: in plain characters only.
    """
    from rich.console import Console

    document = ascii_document(document) if ascii else document
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for line in document.lead:
        console.print(plain(line), soft_wrap=True)
    if document.rows:
        console.print(_table(document, ascii))
    if details:
        for section in document.sections:
            console.print()
            console.print(_section(section), soft_wrap=True)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).rstrip() + "\n"


def _table(document: Document, ascii: bool) -> object:
    from rich.box import MARKDOWN, SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    used = [i for i in range(len(document.header)) if any(row[i] for row in document.rows)]
    table = Table(box=MARKDOWN if ascii else SIMPLE_HEAD, pad_edge=False)
    for i in used:
        table.add_column(document.header[i], overflow="fold")
    for row in document.rows:
        table.add_row(*(Text(plain(row[i]), style=STYLES.get(row[i], "")) for i in used))
    return table


def _section(section: Section) -> object:
    from rich.text import Text

    text = Text(plain(section.title), style="bold")
    for block in section.blocks:
        text.append(f"\n  {plain(block.title)}", style="cyan not bold")
        for line in block.lines:
            text.append(f"\n    {plain(line)}", style="not bold")
    return text
