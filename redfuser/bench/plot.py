"""A benchmark as a bar chart in SVG, written by hand: no library is needed to look at it."""

from __future__ import annotations

from html import escape

from redfuser.bench.result import BenchResult, duration
from redfuser.report.document import plain

COLORS = ("#b3261e", "#5b7fa6", "#7a9e7e", "#c2a14d", "#8a6fa8", "#6b8f9c", "#a67c63", "#888888")
LABEL, WIDTH, BAR, GAP, MARGIN = 190, 560, 16, 14, 40


def svg(result: BenchResult) -> str:
    """Horizontal bars, one group a case, each scaled to its slowest side."""
    names = list(dict.fromkeys(side.side for case in result.cases for side in case.sides))
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    parts: list[str] = []
    y = MARGIN + 18
    for case in result.cases:
        longest = max(side.median_us for side in case.sides)
        parts.append(_text(8, y + BAR - 4, case.name, weight="bold"))
        y += BAR + 4
        for side in case.sides:
            length = max(side.median_us / longest * WIDTH, 1.0)
            ratio = f"  {side.ratio:.2f}x" if side is not case.sides[0] else ""
            parts.append(_text(LABEL - 8, y + BAR - 4, side.side, anchor="end"))
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colors[side.side]}"/>')
            parts.append(_text(LABEL + length + 6, y + BAR - 4, duration(side.median_us) + ratio))
            y += BAR + 3
        y += GAP
    width, height = LABEL + WIDTH + 150, y
    title = f"{result.title}, {result.threads} threads, medians"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(plain(title))}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            _text(8, MARGIN - 14, title, weight="bold", size=15),
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(plain(text))}</text>'
