"""Show what would be fused in a model and why the rest would not, without compiling it."""

from __future__ import annotations

import argparse

from .arguments import add_ascii, add_common, add_model, compile_options
from .output import print_document, print_json, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_model(parser)
    add_common(parser, ("terminal", "json", "markdown", "html"))
    add_ascii(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from redfuser.driver import analyze_model
    from redfuser.report.describe import describe_report

    with progress(arguments) as shown:
        report = analyze_model(arguments.model, compile_options(arguments), shown)
    if arguments.format == "json":
        print_json(report.as_data())
    else:
        print_document(describe_report(report), arguments.format, arguments.verbose, arguments.ascii)
    return 0
