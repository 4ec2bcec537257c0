"""Compile a model into an artifact: a module, its report, readable kernels."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.paths import path_of

from .arguments import add_common, add_model, add_tuning, compile_options
from .output import print_json, progress

if TYPE_CHECKING:
    from redfuser.api import Artifact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_model(parser)
    parser.add_argument(
        "-o", "--output", type=path_of, metavar="FOLDER", help="folder to write (default: MODEL.redfuser)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing artifact")
    parser.add_argument("--dump", type=path_of, metavar="FOLDER", help="also write every stage's value as text")
    parser.add_argument("--strict", action="store_true", help="a cascade that falls back to unfused is an error")
    parser.add_argument(
        "--require-fused", action="append", default=[], metavar="'KIND>=N'", help="fail unless so many are fused"
    )
    parser.add_argument("--fail-on", choices=("missed",), help="missed: fail if any cascade isn't fused")
    add_tuning(parser, budget="off")
    parser.add_argument("--tuning-lock", type=path_of, metavar="FILE", help="use the schedules that tune found")
    parser.add_argument("--locked", action="store_true", help="fail unless the lock gives every kernel, unchanged")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from redfuser.api import compile_to_folder, default_output

    options = compile_options(arguments)
    output = arguments.output or default_output(arguments.model)
    with progress(arguments) as shown:
        artifact = compile_to_folder(
            arguments.model, options, output, force=arguments.force, progress=shown, dump=arguments.dump
        )
    if arguments.format == "json":
        print_json({"schema": "redfuser.compile/1", "output": str(output), "report": artifact.report.as_data()})
    else:
        print_summary(artifact, arguments.model)
    return 0


def print_summary(artifact: Artifact, model: Path) -> None:
    """What was found and fused, why not, where it lies, what to run next."""
    from redfuser.report.describe import bytes_text, summary_lines
    from redfuser.report.document import plain

    size = sum(record.size for record in artifact.manifest.files.values())
    for line in (
        f"compiled {model} for {artifact.manifest.target.name}",
        *summary_lines(artifact.report),
        f"wrote {artifact.path}{'' if str(artifact.path).endswith('/') else '/'} ({bytes_text(size)})",
        f"next: redfuser report {artifact.path}",
        f"      redfuser verify {artifact.path} --model {model}",
    ):
        print(plain(line))
