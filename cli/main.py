"""The entry point: parse, run one command, turn errors into one line and an exit code.

Whatever takes time to import is imported where signals are answered already.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from types import FrameType

    from redfuser.errors import RedFuserError

INTERRUPTED, TERMINATED, BROKEN_PIPE = 130, 143, 141


class Request:
    """A signal that asks to end: unwind, so that nothing half-written stays.

    What TVM calls back hands the exception on as another error, so it is remembered that it was asked for.

    Attributes:
        code: the exit code; 0 as long as nothing was asked.
    """

    def __init__(self) -> None:
        self.code = 0

    def answer(self) -> None:
        """Handle Control-C, unless whoever started us ignores it, and the SIGTERM of a build system."""
        signal.signal(signal.SIGTERM, self._terminate)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._interrupt)

    def _terminate(self, _: int, __: FrameType | None) -> None:
        self.code = TERMINATED
        sys.exit(TERMINATED)

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        self.code = INTERRUPTED
        raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit code."""
    request = Request()
    try:
        request.answer()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        code = _dispatch(list(sys.argv[1:] if argv is None else argv), request)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (``| head``): nobody is left to tell, and Python must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return code


def _dispatch(argv: list[str], request: Request) -> int:
    arguments: Namespace | None = None
    try:
        from .parser import build_parser

        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        return code
    except BrokenPipeError:
        raise
    except Exception as error:
        return request.code or _fail(error, arguments)


def _fail(error: Exception, arguments: Namespace | None) -> int:
    """Say what went wrong, on stdout too where a program reads it; the exit code."""
    import traceback

    from redfuser.errors import RedFuserError

    from .output import print_error, print_json

    shown = error if isinstance(error, RedFuserError) else _unforeseen(error)
    if arguments is not None and arguments.verbose and shown is not error:
        traceback.print_exc()
    if arguments is not None and arguments.format == "json":
        print_json({"schema": "redfuser.error/1", "error": shown.as_dict()})
    print_error(shown.code, shown.message, shown.hint)
    return shown.exit_code


def _unforeseen(error: Exception) -> RedFuserError:
    """A package that isn't there, or a bug of ours; only the first line, since TVM's texts run to pages."""
    from redfuser.errors import MissingToolError, RedFuserError

    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("redfuser"):
        return MissingToolError(f"the package {error.name!r} isn't installed", "redfuser doctor says what is missing")
    lines = str(error).strip().splitlines()
    return RedFuserError(
        f"{type(error).__name__}: {lines[0] if lines else 'no message'}",
        "this is a bug in redfuser: please report it with the traceback that -v shows",
    )


if __name__ == "__main__":
    sys.exit(main())
