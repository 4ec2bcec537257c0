"""List the devices that models can be compiled for."""

from __future__ import annotations

import argparse

from .arguments import add_common
from .output import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from redfuser.records import encode
    from redfuser.targets import load_target, target_names

    found = [load_target(name) for name in target_names()]
    if arguments.format == "json":
        print_json({"schema": "redfuser.targets/1", "targets": [encode(target) for target in found]})
        return 0
    width = max(len(target.name) for target in found)
    for target in found:
        print(f"{target.name:{width}}  {target.kind}  {target.arch:10}  {target.description}")
        if arguments.verbose:
            print(f"{'':{width}}       {target}")
    return 0
