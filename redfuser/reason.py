"""Why something was not done: shared by every stage that may refuse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why something isn't done: a stable code, a sentence, and the witness that shows it."""

    code: str
    text: str
    witness: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" + (f" (witness: {self.witness})" if self.witness else "")
