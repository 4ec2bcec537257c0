"""User-facing errors: one class each, with a code, an exit code and a way out.

Raise the class that fits; the command line turns it into one line on stderr and the exit code.
Anything else that escapes a stage is a bug of ours (exit code 1).
"""

from __future__ import annotations

from typing import ClassVar


class RedFuserError(Exception):
    """Base of every error a user can cause or mend.

    Args:
        message: what is wrong; names the node, value or file concerned.
        hint: the way out, as an instruction. Empty if there is none.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_dict(self) -> dict[str, str]:
        """The error as JSON-ready data, for ``--format json``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class UsageError(RedFuserError):
    """A command-line option or argument is wrong."""

    code = "usage"
    exit_code = 2


class OutputError(UsageError):
    """The output folder cannot be written, or exists and may not be replaced."""

    code = "output"


class ModelError(RedFuserError):
    """The file is not a valid ONNX model, or exceeds a limit."""

    code = "bad-model"
    exit_code = 3


class UnsafeModelError(ModelError):
    """The model reaches for something outside its own folder, or breaks a safety limit."""

    code = "unsafe-model"


class DynamicShapeError(UsageError):
    """A dimension must be known and isn't."""

    code = "dynamic-shape"


class UnsupportedOperatorError(RedFuserError):
    """An operator of the model has no lowering."""

    code = "unsupported-operator"
    exit_code = 4


class UnsupportedTargetError(RedFuserError):
    """The target is unknown, or this build cannot generate code for it."""

    code = "unsupported-target"
    exit_code = 4


class FusionGateError(RedFuserError):
    """A gate such as ``--require-fused 'attention>=12'`` or ``--strict`` isn't met."""

    code = "fusion-gate"
    exit_code = 5


class VerificationError(RedFuserError):
    """An artifact doesn't match its manifest, or its numbers don't match the oracle."""

    code = "verification"
    exit_code = 6


class LockMissError(RedFuserError):
    """``--locked``, and the lock doesn't say how to compute a cascade, or another kernel came of what it says."""

    code = "tuning-lock"
    exit_code = 7


class MissingToolError(RedFuserError):
    """Something this machine must have is missing or broken."""

    code = "environment"
    exit_code = 8
