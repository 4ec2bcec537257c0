"""Show or clear what tuning keeps on this machine."""

from __future__ import annotations

import argparse

from .arguments import add_common
from .output import print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    actions = ("path", "list", "size", "clear")
    parser.add_argument("action", choices=actions, nargs="?", default="list", help="what to do (default: list)")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from redfuser.report.describe import bytes_text
    from redfuser.tuning.cache import Cache, cache_folder

    cache = Cache(cache_folder())
    entries = cache.entries()
    size = sum(entry.size for entry in entries)
    removed = cache.clear() if arguments.action == "clear" else 0
    if arguments.format == "json":
        files = [{"kind": entry.kind, "name": entry.path.name, "size": entry.size} for entry in entries]
        data = {"path": str(cache.folder), "size": size, "removed": removed, "files": files}
        print_json({"schema": "redfuser.cache/1", **data})
    elif arguments.action == "path":
        print(cache.folder)
    elif arguments.action == "clear":
        print(f"removed {removed} files ({bytes_text(size)})")
    else:
        for entry in entries if arguments.action == "list" else ():
            print(f"{entry.kind:8} {entry.path.stem[:16]:16} {bytes_text(entry.size):>8}")
        print(f"{len(entries)} files, {bytes_text(size)}, in {cache.folder}")
    return 0
