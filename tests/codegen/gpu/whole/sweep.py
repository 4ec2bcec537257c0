"""Every model and workload that the GPU back end answers for, compiled for every target, checked, told as a table.

    python -m tests.codegen.gpu.whole.sweep                               # all: hours cold, minutes from the cache
    python -m tests.codegen.gpu.whole.sweep --target h800 --only bert -v  # some, with every kernel
    python -m tests.codegen.gpu.whole.sweep --emulate                     # and computed by the emulator

Of each: that every cascade is fused or says specifically why not, that its tile program gives in float64 what its
definition does, on ordinary, large and masked inputs, that no chosen kernel spills (16 B in an attention
of sm_86) or exceeds its target, that kernels with products use their architecture's units and none keeps variables in
memory, and that a driver which records sees the launches that the module's calls ask for. With ``--emulate`` also that
each kernel computes what float64 does, on ordinary, large and masked inputs, and so does a whole model from end to end,
under two schedules. Exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from redfuser.artifact.bundle import BundledKernel
from redfuser.artifact.write import write_artifact
from redfuser.bench.workload import load_workload, workload_names
from redfuser.codegen.gpu.launch import program_symbol
from redfuser.codegen.gpu.tools.cache import cache_folder
from redfuser.codegen.gpu.tools.toolchain import find_toolchain
from redfuser.codegen.gpu.tools.toolkit import compile_ptx
from redfuser.codegen.gpu.value import GpuKernel, GpuProgram
from redfuser.driver import analyze, compile_analysis
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.records import digest
from redfuser.report.value import CascadeEntry
from redfuser.stages.analysis import Analysis
from redfuser.targets import GpuTarget, load_target
from tests.codegen.gpu.ptx import problems as ptx_problems
from tests.codegen.gpu.whole import definitions
from tests.codegen.gpu.whole.recording import Recorder, build_recorder
from tests.emulator import artifact as artifacts
from tests.emulator import tiles
from tests.emulator.schedules import SCHEDULES

TARGETS = ("a10", "a100-80g", "h100-sxm", "h800", "h200")

#: Exported models, in the sizes of the inputs that lie beside them.
MODELS = (
    *("minilm_realweights__dyn18", "bert__fp16", "llama__fp16"),
    *("gemma2__fp16", "mixtral__eager18", "deepseek_v3__fp16"),
)

CORPUS = Path(__file__).resolve().parents[5] / "shared" / "corpus" / "exported"

#: What an attention may spill where registers are scarcest, in bytes a thread.
SPILLED = {"sm_86": 16}


@dataclass(frozen=True)
class Subject:
    """One graph.

    Args:
        shapes: of its inputs, where it leaves them open.
        inputs: a file of arrays for them; None for any.
    """

    name: str
    path: Path
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: Path | None = None


@dataclass(frozen=True)
class Finding:
    """What became of a subject on a target: its cascades, its kernels, and what is wrong with them."""

    subject: str
    target: GpuTarget
    cascades: tuple[CascadeEntry, ...]
    programs: tuple[GpuProgram, ...]
    problems: tuple[str, ...]

    @property
    def kernels(self) -> tuple[GpuKernel, ...]:
        """Of all programs."""
        return tuple(kernel for program in self.programs for kernel in program.kernels)

    def row(self) -> str:
        """A line of the table."""
        fused = sum(entry.verdict == "fused" for entry in self.cascades)
        used = [kernel.resources for kernel in self.kernels]
        shared = max((r.static_shared + r.dynamic_shared for r in used), default=0)
        most = (max((getattr(r, name) for r in used), default=0) for name in ("registers", "spills"))
        registers, spills = most
        cells = (f"{fused}/{len(self.cascades)}", len(used), registers, f"{shared / 1024:.0f}", spills)
        return f"| {self.subject} | {self.target.name} | {' | '.join(map(str, cells))} |"

    def details(self) -> Iterator[str]:
        """Each kernel with its schedule, and each cascade without one with its reason."""
        schedules = {entry.id: entry for entry in self.cascades}
        for program in self.programs:
            entry = schedules.get(program.name)
            for kernel in program.kernels:
                chosen = f"{entry.strategy} {dict(entry.schedule)}" if entry is not None else ""
                yield f"    {kernel.name}: {chosen}; grid {list(kernel.grid)}; {kernel.resources}"
        for entry in self.cascades:
            if entry.reason is not None:
                yield f"    {entry.id}: {entry.kind} unfused: {entry.reason}"


def exported(name: str, folder: Path, length: int | None = None) -> Subject:
    """A model of the corpus with the inputs that lie beside it.

    Args:
        folder: where to write inputs.
        length: of the sequences where the model leaves it open, if another is wanted: their first elements are repeated
            in front, so that padding there, which hides whole tiles and rows, grows.
    """
    path = CORPUS / f"{name}.onnx"
    arrays = dict(np.load(path.with_suffix(".npz")).items())
    if length is not None:
        arrays = {key: np.pad(a, ((0, 0), (length - a.shape[1], 0)), "edge") for key, a in arrays.items()}
    inputs = folder / f"{name}.npz"
    np.savez(inputs, allow_pickle=False, **arrays)
    return Subject(name, path, {key: array.shape for key, array in arrays.items()}, inputs)


def workload_case(workload: str, name: str, folder: Path) -> Subject:
    """A case of a workload, its graph written into a folder."""
    (case,) = (case for case in load_workload(workload).cases if case.name == name)
    path = folder / f"{workload}-{name}.onnx"
    path.write_bytes(case.model().SerializeToString())
    return Subject(f"{workload} {name}", path)


def subjects(folder: Path) -> Iterator[Subject]:
    """Models of the corpus, and every case of cascades of every workload, written into a folder."""
    if CORPUS.exists():
        for name in MODELS:
            yield exported(name, folder)
    for workload in workload_names():
        for case in filter(lambda case: case.whole, load_workload(workload).cases):
            yield workload_case(workload, case.name, folder)


def examine(
    subject: Subject, analysis: Analysis, target: GpuTarget, folder: Path, recorder: Recorder, emulate: bool
) -> Finding:
    """Compile an analysed subject for a target, and check all that can be checked without a device."""
    options = CompileOptions(target=target, shapes=subject.shapes)
    compiled = compile_analysis(analysis, options, Silent())
    listed: Any = compiled.dump["kernels"]
    programs = tuple(kernel.code for kernel in listed.values)
    attentions = {entry.id for entry in compiled.report.cascades if entry.kind == "attention"}
    found = [f"{entry.id} gives no specific reason: {entry.reason}" for entry in compiled.report.cascades
             if entry.reason is not None and entry.reason.code == "generation-failed"]  # fmt: skip
    for program in programs:
        for kernel in program.kernels:
            found += kernel_problems(kernel, target, program.name in attentions)
    cascades = {name: cascade for cascade, name in analysis.distinct().items()}
    for kernel in listed.values:
        if kernel.program.name in cascades:
            found += definitions.differences(cascades[kernel.program.name], kernel.program)
    artifact = folder / f"{subject.path.stem}-{target.name}"
    write_artifact(compiled, options, artifact)
    module: Any = compiled.dump["module"]
    found += launch_problems(artifact, programs, module.calls, target, recorder)
    if emulate:
        for kernel in listed.values:
            found += tiles.differences(BundledKernel("", 0, kernel.program, kernel.code, options.fp32 == "tf32"))
    if emulate and subject.inputs is not None:
        found += artifacts.differences(artifact, subject.path, subject.inputs, recorder, folder, SCHEDULES[:2])
    return Finding(subject.name, target, compiled.report.cascades, programs, tuple(found))


def kernel_problems(kernel: GpuKernel, target: GpuTarget, attention: bool) -> Iterator[str]:
    """What is wrong with a kernel by its assembler's report and its PTX."""
    used = kernel.resources
    if used.spills > (SPILLED.get(target.arch, 0) if attention else 0):
        yield f"{kernel.name} spills {used.spills} B"
    if (shared := used.static_shared + used.dynamic_shared) > target.shared_block_kb * 1024:
        yield f"{kernel.name} takes {shared} B of shared memory"
    fast = ("-prec-div=false", "-ftz=true")
    copies = "T.Pipelined(" in kernel.script and re.search(r"T\.copy\(\w+\[", kernel.script) is not None
    uses = ("T.gemm(" in kernel.script, copies)
    tf32 = {argument.dtype for argument in kernel.arguments if "float" in argument.dtype} == {"float32"}
    for problem in _ptx_problems(kernel.source, kernel.arch, *uses, tf32, fast):
        yield f"{kernel.name}: {problem}"


@cache
def _ptx_problems(
    source: str, arch: str, multiplies: bool, copies: bool, tf32: bool, options: tuple[str, ...]
) -> tuple[str, ...]:
    tools = find_toolchain()
    kept = cache_folder().with_name("ptx") / f"{digest([source, arch, options, tools.versions])}.ptx"
    if not kept.exists():
        ptx = compile_ptx(source, arch, ("-std=c++20", *tools.includes, *options))
        kept.parent.mkdir(parents=True, exist_ok=True)
        written = kept.with_suffix(f".{os.getpid()}")
        written.write_text(ptx, encoding="utf-8")
        written.replace(kept)
    return tuple(ptx_problems(kept.read_text(encoding="utf-8"), arch, multiplies, copies, tf32))


def launch_problems(
    artifact: Path, programs: Sequence[GpuProgram], calls: dict[str, int], target: GpuTarget, recorder: Recorder
) -> Iterator[str]:
    """Run the whole module on the recording driver; every call must launch its kernels."""
    capability = int("".join(filter(str.isdigit, target.arch)))
    done = recorder.redfuser("run", artifact, "--device", "cuda", capability=capability)
    if done.code:
        yield f"it doesn't run: {done.output.strip().splitlines()[-1:]}"
        return
    launched = Counter(str(event["kernel"]) for event in done.of("launch"))
    wanted = {step.entry: calls[program_symbol(p.name)] for p in programs for step in p.kernels}
    fused = {program_symbol(program.name) for program in programs}
    wanted |= {f"{name}_kernel": count for name, count in calls.items() if name not in fused}
    for entry, count in wanted.items():
        if launched[entry] != count:
            yield f"{entry} is called {count} times and launched {launched[entry]} times"


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep, print the table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    parser.add_argument("--only", default="", metavar="TEXT", help="subjects whose name contains this")
    parser.add_argument("-v", "--verbose", action="store_true", help="every kernel, every reason")
    parser.add_argument("--emulate", action="store_true", help="compute kernels and whole models in the emulator")
    chosen = parser.parse_args(arguments)
    wrong = 0
    print("| subject | target | fused | kernels | registers | shared KB | spill B |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="redfuser-sweep-") as name:
        folder = Path(name)
        recorder = build_recorder(folder)
        for subject in subjects(folder):
            if chosen.only not in subject.name:
                continue
            options = CompileOptions(target=_gpu(TARGETS[0]), shapes=subject.shapes)
            analysis = analyze(subject.path, options, Silent())
            for target in map(_gpu, chosen.target or TARGETS):
                finding = examine(subject, analysis, target, folder, recorder, chosen.emulate)
                wrong += len(finding.problems)
                lines = [*(finding.details() if chosen.verbose else ()), *(f"    WRONG: {p}" for p in finding.problems)]
                print(finding.row(), *lines, sep="\n", flush=True)
    print(f"{wrong} problems")
    return 1 if wrong else 0


def _gpu(name: str) -> GpuTarget:
    found = load_target(name)
    assert isinstance(found, GpuTarget)
    return found


if __name__ == "__main__":
    sys.exit(main())
