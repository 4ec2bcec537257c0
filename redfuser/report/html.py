"""A document as one self-contained HTML page: no script, nothing loaded."""

from __future__ import annotations

import html
from collections.abc import Iterable

from redfuser.report.document import Document, Section, plain

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2430; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d5dbe3; vertical-align: top; }
.fused, .better { color: #17663a; } .unfused { color: #8a5a00; } .worse { color: #a32020; }
pre { background: #f4f6f9; padding: .6rem; overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""

CLASSES = frozenset({"fused", "unfused", "better", "worse"})


def render(document: Document) -> str:
    """A whole page."""
    parts = [f"<p>{escape(line)}</p>" for line in document.lead]
    if document.rows:
        parts += ["<table>", _row("th", document.header), *(_row("td", row) for row in document.rows), "</table>"]
    parts += map(_section, document.sections)
    return PAGE.format(title=escape(document.title), style=STYLE, body="\n".join(parts))


def escape(text: str) -> str:
    """Text that HTML shows as it is, in content and in attributes."""
    return html.escape(plain(text), quote=True)


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(_cell(tag, cell) for cell in cells)}</tr>"


def _cell(tag: str, text: str) -> str:
    kind = f' class="{text}"' if text in CLASSES else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"


def _section(section: Section) -> str:
    blocks = "".join(
        f"<h3>{escape(block.title)}</h3>\n<pre>{escape_lines(block.lines)}</pre>\n" for block in section.blocks
    )
    return f"<details><summary>{escape(section.title)}</summary>\n{blocks}</details>"


def escape_lines(lines: Iterable[str]) -> str:
    """Lines for a ``pre`` element."""
    return "\n".join(map(escape, lines))
