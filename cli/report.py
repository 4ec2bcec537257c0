"""Show the fusion report of an artifact, or what changed since another."""

from __future__ import annotations

import argparse

from redfuser.paths import path_of

from .arguments import add_ascii, add_common
from .output import print_document, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    parser.add_argument("artifact", type=path_of, metavar="ARTIFACT", help="what compile wrote, or a report.json")
    parser.add_argument("--diff", type=path_of, metavar="OTHER", help="compare with this older artifact or report.json")
    add_common(parser, ("terminal", "json", "markdown", "html"))
    add_ascii(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from redfuser.artifact.verify import read_report
    from redfuser.report.describe import describe_report
    from redfuser.report.diff import compare_reports, describe_diff

    report = read_report(arguments.artifact)
    if arguments.diff is None:
        data, document = report.as_data(), describe_report(report)
    else:
        diff = compare_reports(read_report(arguments.diff), report)
        data, document = diff.as_data(), describe_diff(diff)
    if arguments.format == "json":
        print_json(data)
    else:
        print_document(document, arguments.format, arguments.verbose, arguments.ascii)
    return 0
