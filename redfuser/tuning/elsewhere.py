"""Choosers for machines that aren't this one: through a tracker, or by a bundle that someone carries there and back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redfuser.cascade.identity import cascade_digest
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.targets import CpuTarget
from redfuser.tuning.choose import Chooser, untuned
from redfuser.tuning.record import Record, SpaceRecord
from redfuser.tuning.task import Task


@contextmanager
def tracked(options: CompileOptions, progress: Progress, host: str, port: int, key: str) -> Iterator[Chooser]:
    """Times candidates on servers behind a tracker."""
    from redfuser.tuning.timing.rpc import RpcRunner
    from redfuser.tuning.tuner import tuning

    with tuning(options, progress, RpcRunner(host, port, key), where=f"rpc {key}") as tuner:
        yield lambda task: tuner.tune(task) or untuned(task, options)


@contextmanager
def exporting(options: CompileOptions, progress: Progress, folder: Path) -> Iterator[Chooser]:
    """Puts each cascade's most promising candidates into a bundle, and answers with the usual choice.

    Raises:
        OutputError: the folder can't be used.
    """
    if not isinstance(options.target, CpuTarget):
        from redfuser.tuning import gpu_bundle

        with gpu_bundle.exporting(options, progress, folder) as choose_usual:
            yield choose_usual
        return
    from redfuser.tuning.bundle import Exporter
    from redfuser.tuning.costs.cpu import CpuModel
    from redfuser.tuning.costs.rates import CpuRates
    from redfuser.tuning.spaces import space_of
    from redfuser.tuning.timing.builder import Builder
    from redfuser.tuning.tuner import rank

    target = options.target
    exporter = Exporter(folder, target, options.seed)
    model = CpuModel(target, CpuRates.nominal(target))
    with tempfile.TemporaryDirectory(prefix="redfuser-tune-") as scratch:
        builder = Builder(target, Path(scratch))

        def choose(task: Task) -> Record:
            progress.stage(f"build candidates of {task.name}")
            survey = space_of(task.precise, task.derivation, target).survey()
            ranked = rank(survey, model)[: options.trials]
            exporter.add(task.name, cascade_digest(task.cascade), SpaceRecord.of(survey), ranked, builder.build)
            return untuned(task, options)

        yield choose
    exporter.write()


@contextmanager
def importing(options: CompileOptions, progress: Progress, folder: Path) -> Iterator[Chooser]:
    """Takes what a measured bundle found.

    Raises:
        UsageError: the folder holds no results for these options.
    """
    from redfuser.tuning import bundle, gpu_bundle

    read = bundle.read_results if isinstance(options.target, CpuTarget) else gpu_bundle.read_results
    known = read(folder, options.target)

    def choose(task: Task) -> Record:
        record = known.get(cascade_digest(task.cascade))
        if record is None:
            progress.warn(f"the bundle holds no times for {task.name}: its usual schedule is kept")
        return record or untuned(task, options)

    yield choose
