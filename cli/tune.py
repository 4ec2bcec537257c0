"""Measure schedules for a model's cascades, here or elsewhere, and write the best to a lock."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.errors import OutputError
from redfuser.paths import path_of
from redfuser.report.document import plain

from .arguments import add_common, add_model, add_tuning, compile_options
from .files import check_file, whole_file
from .output import print_json, progress

if TYPE_CHECKING:
    from redfuser.options import CompileOptions
    from redfuser.progress import Progress
    from redfuser.tuning.choose import Chooser
    from redfuser.tuning.record import Record, TuningLock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_model(parser)
    add_tuning(parser, budget="5m")
    parser.add_argument("-o", "--output", type=path_of, metavar="LOCK", help="file to write (default: MODEL.lock)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--tracker", metavar="HOST:PORT", help="measure on servers behind this TVM RPC tracker")
    where.add_argument("--export", type=path_of, metavar="FOLDER", help="write candidates to be measured elsewhere")
    where.add_argument("--import", type=path_of, metavar="FOLDER", dest="results", help="take what such a folder found")
    parser.add_argument("--key", default="cpu", metavar="KEY", help="of the tracker's servers (default: cpu)")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        RedFuserError: one of its subclasses.
    """
    from redfuser.api import beside
    from redfuser.driver import tune_model
    from redfuser.records import encode
    from redfuser.tuning.record import MEASURED

    output: Path = arguments.output or beside(arguments.model, ".lock")
    check_lock(output)
    options = compile_options(arguments)
    with progress(arguments) as shown, place(arguments, options, shown) as choose:
        lock, report = tune_model(arguments.model, options, shown, choose)
    if arguments.export is not None:
        print(plain(f"wrote {arguments.export}: {len(lock.kernels)} cascades to measure"))
        on_gpu = f"run.py --json {arguments.export}/results.json"
        script = "measure.py" if options.target.kind == "cpu" else on_gpu
        print(plain(f"next: python {arguments.export}/{script}, on the machine to tune for"))
        print(plain(f"      redfuser tune {arguments.model} --import {arguments.export}"))
        return 0
    write_lock(lock, output)
    if arguments.format == "json":
        measured = {
            name: {key: encode(getattr(record, key)) for key in MEASURED} for name, record in lock.kernels.items()
        }
        print_json({"schema": "redfuser.tune/1", "output": str(output), "lock": lock.as_data(), "measured": measured})
        return 0
    for name, record in lock.kernels.items():
        print(plain(f"{name}: {describe(record)}"))
        if record.space is not None:
            print(plain(f"  {record.space}"))
    for entry in report.cascades:
        if entry.reason is not None:
            print(plain(f"{entry.id}: not fused, {entry.reason}"))
    print(plain(f"wrote {output}"))
    print(plain(f"next: redfuser compile {arguments.model} --tuning-lock {output} --locked"))
    return 0


@contextmanager
def place(arguments: argparse.Namespace, options: CompileOptions, shown: Progress) -> Iterator[Chooser | None]:
    """What decides where not this machine does."""
    from redfuser.tuning.elsewhere import exporting, importing, tracked
    from redfuser.tuning.timing.rpc import parse_tracker

    with ExitStack() as stack:
        if arguments.tracker is not None:
            yield stack.enter_context(tracked(options, shown, *parse_tracker(arguments.tracker), arguments.key))
        elif arguments.export is not None:
            yield stack.enter_context(exporting(options, shown, arguments.export))
        elif arguments.results is not None:
            yield stack.enter_context(importing(options, shown, arguments.results))
        else:
            yield None


def describe(record: Record) -> str:
    """The choice and its time in one line."""
    schedule = record.schedule
    tiles = ", ".join(f"{name} {size}" for name, size in schedule.tiles.items())
    segments = f", {schedule.segments} segments" if schedule.segments > 1 else ""
    options = "".join(f", {name} {value}" for name, value in schedule.options.items())
    noise = f" ±{record.noise:.0%}, best of {record.trials} timed" if record.trials else ""
    noise += f", unfused {record.gain:.2f} times as long" if record.gain else ""
    lanes = f", lanes {schedule.lanes}" if schedule.lanes else ""
    how = "measured" if record.trials else "modelled"
    return f"{schedule.strategy}{segments}, tiles {tiles}{lanes}{options}: {record.time_us:.4g} us {how}{noise}"


def check_lock(path: Path) -> None:
    """Refuse, before anything is measured, a place for the lock.

    Raises:
        OutputError: it cannot be written, or holds something else than a lock.
    """
    from redfuser.tuning.record import is_lock

    check_file(path)
    if path.exists() and not is_lock(path):
        raise OutputError(
            f"{str(path)!r} exists and isn't a tuning lock, so it won't be replaced", "choose another file with -o"
        )


def write_lock(lock: TuningLock, path: Path) -> None:
    """Write the lock, all of it or nothing.

    Raises:
        OutputError: the file cannot be written.
    """
    with whole_file(path) as partial:
        partial.write_text(lock.to_json(), encoding="utf-8")
