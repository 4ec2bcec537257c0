"""Where things go: the result to stdout; errors, logs and progress to stderr."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redfuser.progress import Progress, Silent
from redfuser.report.document import plain

if TYPE_CHECKING:
    from redfuser.report.document import Document

#: width of tables where no terminal says how wide it is
LOG_WIDTH = 120
#: a log says at most so often how a stage stands
STATUS_SECONDS = 10.0


def print_json(data: object) -> None:
    """The result as JSON, ASCII only."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_error(code: str, message: str, hint: str) -> None:
    """One line, and one more for the way out."""
    print(f"error[{code}]: {plain(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {plain(hint)}", file=sys.stderr)


def print_document(document: Document, form: str, details: bool = True, ascii: bool = False) -> None:
    """Lay a document out on stdout.

    Args:
        form: ``terminal``, ``markdown`` or ``html``.
        details: on a terminal, every section too.
        ascii: in plain characters; also wherever stdout has no others.
    """
    from redfuser.report import html, markdown, terminal
    from redfuser.report.ascii import ascii_document

    ascii = ascii or (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    if form == "terminal":
        tty = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if tty else LOG_WIDTH
        color = tty and "NO_COLOR" not in os.environ
        text = terminal.render(document, details=details, width=width, color=color, ascii=ascii)
    else:
        document = ascii_document(document) if ascii else document
        text = markdown.render(document) if form == "markdown" else html.render(document)
    print(text, end="")


class Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._start = self._said = time.monotonic()

    def stage(self, name: str) -> None:
        """One line a stage, with the seconds since the start."""
        self._print(name)

    def note(self, text: str) -> None:
        """Shown with ``-v``."""
        if self._verbose:
            self._print(f"  {text}")

    def warn(self, text: str) -> None:
        """Always shown."""
        self._print(f"warning: {text}")

    def step(self, done: int, total: int) -> None:
        """Too fine for a log."""

    def status(self, text: str) -> None:
        """A line now and then."""
        now = time.monotonic()
        if now - self._said >= STATUS_SECONDS:
            self._said = now
            self._print(f"  {text}")

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:7.1f} s  {plain(text)}", file=sys.stderr, flush=True)


class Bar:
    """Progress as one live line, for a terminal. Use it as a context."""

    def __init__(self, verbose: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._verbose = verbose
        self._stage = "start"
        text = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), text, BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("start", total=None)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, name: str) -> None:
        """Rename the line; the length isn't known yet."""
        self._stage = name
        self._progress.reset(self._task, total=None, start=True, description=plain(name))

    def note(self, text: str) -> None:
        """A line above, with ``-v``."""
        if self._verbose:
            self._progress.console.print(plain(text), markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """A line above."""
        self._progress.console.print(plain(f"warning: {text}"), markup=False, highlight=False)

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total)

    def status(self, text: str) -> None:
        """Added to the line."""
        self._progress.update(self._task, description=plain(f"{self._stage}: {text}"))


@contextmanager
def progress(arguments: argparse.Namespace) -> Iterator[Progress]:
    """A bar on a terminal, lines elsewhere, nothing with ``-q``."""
    if arguments.quiet:
        yield Silent()
    elif sys.stderr.isatty():
        with Bar(arguments.verbose) as bar:
            yield bar
    else:
        yield Lines(arguments.verbose)
