"""Why a tile program can't become a kernel, whatever the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from redfuser.reason import Reason


class Refused(Exception):
    """A tile program, a schedule or a target that code generation can't serve.

    Args:
        code: stable, for the report.
        text: the precondition that failed.
        witness: what shows it.
    """

    def __init__(self, code: str, text: str, witness: object = "") -> None:
        self.reason = Reason(code, text, str(witness))
        super().__init__(str(self.reason))


#: What our code and TVM's raise about a function they can't handle: another way is taken, compilation goes on.
FAILURES = (Refused, RuntimeError, TypeError, ValueError, AssertionError, LookupError)

#: What an assembler or a device takes too little of, as it stands in a reason's text.
SCARCE = ("shared memory", "registers", "threads")
#: How refusals are counted, by code.
COUNTED = {"spills": "spill", "serialised": "have products that wait for each other", "compiler": "refused by nvcc"}


def reason_of(failure: Exception) -> Reason:
    """A stage's own reason where it gave one; otherwise what it said."""
    reason = getattr(failure, "reason", None)
    if isinstance(reason, Reason):
        return reason
    text = " ".join(str(failure).split()) or type(failure).__name__
    return Reason("generation-failed", "no kernel could be generated", f"{type(failure).__name__}: {text[:400]}")


def counted(refused: Iterable[Reason]) -> dict[str, int]:
    """What is wrong with schedules, as it reads after the number of those it is wrong with; the commonest first."""
    return dict(Counter(map(_fault, refused)).most_common())


def _fault(reason: Reason) -> str:
    if reason.code == "resources":
        return next((f"over {what}" for what in SCARCE if what in reason.text), "over what the target has")
    return COUNTED.get(reason.code, f"impossible ({reason.code})")
