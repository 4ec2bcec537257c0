"""Why a tile program can't become a kernel, whatever the target."""

from __future__ import annotations

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
