"""Where a compile tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where a long operation says what it is doing. Never the result: that is a return value."""

    def stage(self, name: str) -> None:
        """A new stage begins; the one before has ended."""

    def note(self, text: str) -> None:
        """Something worth a line in a log."""

    def warn(self, text: str) -> None:
        """Something that must be seen although the work goes on."""

    def step(self, done: int, total: int) -> None:
        """``done`` of ``total`` parts of the current stage are finished."""

    def status(self, text: str) -> None:
        """How the current stage stands, in a few words: the best so far."""


class Silent:
    """A :class:`Progress` that says nothing."""

    def stage(self, name: str) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored."""

    def warn(self, text: str) -> None:
        """Ignored."""

    def step(self, done: int, total: int) -> None:
        """Ignored."""

    def status(self, text: str) -> None:
        """Ignored."""
