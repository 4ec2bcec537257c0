"""The parser of all commands."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from redfuser.errors import UsageError

from . import analyze, bench, cache, compile, doctor, report, run, targets, tune, verify

COMMANDS = (compile, tune, bench, analyze, report, run, verify, cache, targets, doctor)

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

        from redfuser.machine.versions import tool_versions

        versions = tool_versions()
        own = versions.pop("redfuser")
        others = ", ".join(f"{name} {version}" for name, version in versions.items())
        print(f"redfuser {own} (python {platform.python_version()}, {others})")
        sys.exit(0)


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
