"""Comparison of texts with the files under ``tests/goldens``."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "goldens"


class Golden:
    """``golden.check("name.txt", text)``: equal to the file, or written to it with ``--regenerate-goldens``."""

    def __init__(self, regenerate: bool) -> None:
        self.regenerate = regenerate

    def check(self, name: str, text: str) -> None:
        """Compare a text, or write it.

        Raises:
            AssertionError: the texts differ, or there is no such file.
        """
        path = FOLDER / name
        if self.regenerate:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.is_file(), f"no golden {name}: run pytest --regenerate-goldens"
        assert text + "\n" == path.read_text(encoding="utf-8")
