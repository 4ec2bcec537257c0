"""Check that this machine has what redfuser needs, and say how to mend what is missing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from redfuser.errors import MissingToolError

from .arguments import add_common
from .output import print_json

if TYPE_CHECKING:
    from redfuser.health import Check

MARKS = {"ok": "ok     ", "optional": "absent ", "broken": "BROKEN "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        MissingToolError: something required is missing or broken; every check was shown before.
    """
    from redfuser.health import check_all
    from redfuser.records import encode

    checks = check_all()
    broken = [check for check in checks if check.state == "broken"]
    if arguments.format == "json":
        print_json({"schema": "redfuser.doctor/1", "ok": not broken, "checks": [encode(check) for check in checks]})
    else:
        for check in checks:
            print(_line(check))
    return MissingToolError.exit_code if broken else 0


def _line(check: Check) -> str:
    mend = f" -- {check.mend}" if check.state != "ok" else ""
    return f"{MARKS[check.state]} {check.name:16} {check.detail}{mend}"
