"""Check an artifact: hash its files again and, with --model, compare its numbers with ONNX Runtime and float64."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from redfuser.errors import VerificationError
from redfuser.paths import path_of
from redfuser.report.document import plain

from .arguments import add_common, add_device
from .feeds import add_feeds, read_samples
from .output import print_json, progress

if TYPE_CHECKING:
    from redfuser.verification import OutputAccuracy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    parser.add_argument("artifact", type=path_of, metavar="ARTIFACT", help="what compile wrote")
    parser.add_argument("--model", type=path_of, metavar="MODEL.onnx", help="the model it was compiled from")
    add_feeds(parser)
    add_device(parser)
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command. The last line says PASSED or FAILED; a failed comparison gives the exit code of its error.

    Raises:
        VerificationError: a file has changed, or the model is another one.
    """
    from redfuser.artifact.verify import verify_files
    from redfuser.verification import compare_with_oracle

    with progress(arguments) as shown:
        shown.stage("hash the files")
        manifest = verify_files(arguments.artifact)
        outputs: tuple[OutputAccuracy, ...] = ()
        if arguments.model is not None:
            samples = read_samples(arguments, manifest)
            outputs = compare_with_oracle(
                arguments.artifact, arguments.model, samples, arguments.threads, shown, arguments.device
            )
    passed = all(output.accuracy.passed for output in outputs)
    if arguments.format == "json":
        compared = [output.as_data() for output in outputs]
        print_json({"schema": "redfuser.verify/1", "files": len(manifest.files), "outputs": compared, "passed": passed})
    else:
        print(f"{len(manifest.files)} files match the manifest")
        for output in outputs:
            print(plain(str(output)))
        if arguments.model is None:
            print("numbers were not compared: give --model MODEL.onnx")
        print("PASSED" if passed else "FAILED")
    return 0 if passed else VerificationError.exit_code
