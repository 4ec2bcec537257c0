"""The entry point: parse, run one command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from redfuser.errors import MissingToolError, RedFuserError, UsageError

from . import analyze, bench, cache, compile, doctor, report, run, targets, tune, verify
from .output import print_error, print_json

COMMANDS = (compile, tune, bench, analyze, report, run, verify, cache, targets, doctor)

INTERRUPTED, TERMINATED, BROKEN_PIPE = 130, 143, 141

EPILOG = """exit codes: 0 ok, 1 internal error, 2 usage, 3 bad or unsafe model, 4 unsupported operator or target,
5 fusion gate unmet, 6 verification failed, 7 tuning lock miss, 8 environment, 130 interrupted"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints look like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting.

        Raises:
            UsageError: always.
        """
        raise UsageError(message, f"see {self.prog} --help")


class Version(argparse.Action):
    """Print the versions that matter, looked up only when asked for."""

    def __call__(self, *_: object) -> None:
        import platform

        from redfuser.versions import tool_versions

        versions = tool_versions()
        own = versions.pop("redfuser")
        others = ", ".join(f"{name} {version}" for name, version in versions.items())
        print(f"redfuser {own} (python {platform.python_version()}, {others})")
        sys.exit(0)


class Termination:
    """A build system ends a step with SIGTERM: unwind like an interrupt, so that nothing half-written stays.

    What TVM calls back hands the exit on as another error, so it is remembered that it was asked for.
    """

    asked = False

    def __call__(self, *_: object) -> None:
        """Handle the signal."""
        self.asked = True
        sys.exit(TERMINATED)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Imports nothing but the commands' own small files."""
    parser = Parser(
        prog="redfuser",
        description="Compile ONNX models with TVM, fusing cascaded reductions into single-pass kernels.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the versions of what matters")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        summary = (command.__doc__ or "").strip().splitlines()[0]
        added = commands.add_parser(name, help=summary, description=command.__doc__, allow_abbrev=False)
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit code."""
    termination = Termination()
    signal.signal(signal.SIGTERM, termination)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv), termination)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (``| head``): nobody is left to tell, and Python must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _dispatch(argv: list[str], termination: Termination) -> int:
    arguments = argparse.Namespace(format="terminal", verbose=False)
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        return code
    except BrokenPipeError:
        raise
    except Exception as error:
        return TERMINATED if termination.asked else _fail(error, arguments)


def _fail(error: Exception, arguments: argparse.Namespace) -> int:
    """Say what went wrong, on stdout too where a program reads it; the exit code."""
    shown = error if isinstance(error, RedFuserError) else _unforeseen(error)
    if arguments.verbose and shown is not error:
        traceback.print_exc()
    if arguments.format == "json":
        print_json({"schema": "redfuser.error/1", "error": shown.as_dict()})
    print_error(shown.code, shown.message, shown.hint)
    return shown.exit_code


def _unforeseen(error: Exception) -> RedFuserError:
    """A package that isn't there, or a bug of ours; only the first line, since TVM's texts run to pages."""
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("redfuser"):
        return MissingToolError(f"the package {error.name!r} isn't installed", "redfuser doctor says what is missing")
    lines = str(error).strip().splitlines()
    return RedFuserError(
        f"{type(error).__name__}: {lines[0] if lines else 'no message'}",
        "this is a bug in redfuser: please report it with the traceback that -v shows",
    )


if __name__ == "__main__":
    sys.exit(main())
