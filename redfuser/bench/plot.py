"""A benchmark as a bar chart: SVG written by hand, PNG by Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path

from redfuser.bench.result import BenchResult, CaseResult, duration
from redfuser.errors import MissingToolError, UsageError
from redfuser.report.document import plain

COLORS = ("#b3261e", "#5b7fa6", "#7a9e7e", "#c2a14d", "#8a6fa8", "#6b8f9c", "#a67c63", "#888888")
LABEL, WIDTH, BAR, GAP, MARGIN, LETTERS = 190, 560, 16, 14, 40, 12
#: Points of a PNG for each point of the layout.
SCALE = 2


@dataclass(frozen=True)
class Text:
    """Words on a base line that begins, or ends, at a point."""

    x: float
    y: float
    words: str
    size: int = LETTERS
    bold: bool = False
    ends: bool = False


@dataclass(frozen=True)
class Bar:
    """A rectangle."""

    x: float
    y: float
    length: float
    color: str


@dataclass(frozen=True)
class Chart:
    """Where everything lies: horizontal bars, one group a case, each scaled to its slowest side."""

    title: str
    width: int
    height: int
    shapes: tuple[Text | Bar, ...]

    @staticmethod
    def of(result: BenchResult) -> Chart:
        """The chart of a benchmark."""
        names = list(dict.fromkeys(side.side for case in result.cases for side in case.sides))
        colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
        title = plain(f"{result.title}, {result.threads} threads, medians")
        shapes: list[Text | Bar] = [Text(8, MARGIN - 14, title, 15, bold=True)]
        y = MARGIN + 18
        for case in result.cases:
            shapes += _group(case, y, colors)
            y += BAR + 4 + len(case.sides) * (BAR + 3) + GAP
        return Chart(title, LABEL + WIDTH + 150, y, tuple(shapes))

    def svg(self) -> str:
        """As SVG: no library is needed to look at it."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'font-family="sans-serif" font-size="{LETTERS}" role="img">',
                f"<title>{escape(self.title)}</title>",
                '<rect width="100%" height="100%" fill="white"/>',
                *map(_element, self.shapes),
                "</svg>\n",
            ]
        )

    def png(self) -> bytes:
        """As PNG; needs Pillow."""
        from io import BytesIO

        from PIL import Image, ImageDraw, ImageFont

        image = Image.new("RGB", (self.width * SCALE, self.height * SCALE), "white")
        draw = ImageDraw.Draw(image)
        for shape in self.shapes:
            x, y = shape.x * SCALE, shape.y * SCALE
            if isinstance(shape, Bar):
                draw.rectangle((x, y, x + shape.length * SCALE, y + BAR * SCALE), fill=shape.color)
            else:
                font = ImageFont.load_default(shape.size * SCALE)
                bold = SCALE / 4 if shape.bold else 0
                draw.text((x, y), shape.words, "black", font, "rs" if shape.ends else "ls", stroke_width=bold)
        written = BytesIO()
        image.save(written, "png")
        return written.getvalue()


def write_plot(result: BenchResult, path: Path) -> None:
    """Draw a chart into a file, in the format that its name ends in.

    Raises:
        UsageError, MissingToolError: see :func:`check_plot`.
        OSError: the file can't be written.
    """
    kind = check_plot(path)
    chart = Chart.of(result)
    path.write_bytes(chart.png() if kind == ".png" else chart.svg().encode())


def check_plot(path: Path) -> str:
    """The format of a plot, by its file's name, if it can be written here.

    Raises:
        UsageError: there is no such format.
        MissingToolError: it is PNG, and Pillow isn't installed.
    """
    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise UsageError(f"--plot {str(path)!r} names no kind of picture", "give a file that ends in .svg or .png")
    if kind == ".png" and find_spec("PIL") is None:
        hint = "pip install 'redfuser[plot]', or give a file that ends in .svg"
        raise MissingToolError("PNG needs Pillow, which isn't installed", hint)
    return kind


def _group(case: CaseResult, y: int, colors: dict[str, str]) -> Iterator[Text | Bar]:
    longest = max(side.median_us for side in case.sides)
    yield Text(8, y + BAR - 4, plain(case.name), bold=True)
    y += BAR + 4
    for side in case.sides:
        length = max(side.median_us / longest * WIDTH, 1.0)
        ratio = f"  {side.ratio:.2f}x" if side is not case.sides[0] else ""
        yield Text(LABEL - 8, y + BAR - 4, plain(side.side), ends=True)
        yield Bar(LABEL, y, length, colors[side.side])
        yield Text(LABEL + length + 6, y + BAR - 4, duration(side.median_us) + ratio)
        y += BAR + 3


def _element(shape: Text | Bar) -> str:
    if isinstance(shape, Bar):
        return f'<rect x="{shape.x}" y="{shape.y}" width="{shape.length:.1f}" height="{BAR}" fill="{shape.color}"/>'
    anchor = "end" if shape.ends else "start"
    weight = "bold" if shape.bold else "normal"
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{shape.size}"'
    return f'<text x="{shape.x:.1f}" y="{shape.y}" {style}>{escape(shape.words)}</text>'
