"""The two oracles: a compiled graph's values against float64, and its verdict against that of the plain spelling."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import redfuser
from redfuser.accuracy import compare
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.report.value import FusionReport
from tests.fuzz.families import Case

Verdict = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Judgement:
    """What compiling one spelling came to: its verdict, and what is wrong with its values."""

    verdict: Verdict
    wrong: tuple[str, ...]


def verdict_of(report: FusionReport) -> Verdict:
    """Kind, verdict and form of each cascade, in no particular order."""
    entries = [(e.kind, e.verdict, e.derivation.form if e.derivation else "") for e in report.cascades]
    return tuple(sorted(entries))


def judge(case: Case, spelling: int, run: bool = True) -> Judgement:
    """Compile and run one spelling, or analyse it only.

    Raises:
        RedFuserError: it doesn't compile.
    """
    model = case.model(spelling)
    feeds = case.feeds(model)
    with tempfile.TemporaryDirectory(prefix="redfuser-fuzz-") as name:
        path = Path(name) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        if not run:
            return Judgement(verdict_of(redfuser.analyze(path)), ())
        artifact = redfuser.compile(path, output=Path(name) / "out.redfuser")
        values = artifact.load()(feeds)
    exact, unfused = run_float64(model, feeds), run_onnxruntime(model, feeds, 1)
    wrong = []
    for output, value in values.items():
        accuracy = compare(value, exact[output], unfused[output], value.dtype.name)
        if not accuracy.passed:
            wrong.append(f"{output}: {accuracy}")
    return Judgement(verdict_of(artifact.report), tuple(wrong))


def failures(case: Case, spellings: int, run: bool = True) -> list[str]:
    """What is wrong with the first spellings of a case, a line each; their verdicts only if they aren't run."""
    found: list[str] = []
    plain: Verdict | None = None
    for spelling in range(spellings):
        try:
            judgement = judge(case, spelling, run)
        except redfuser.RedFuserError as error:
            found.append(f"{case}, spelling {spelling}: {type(error).__name__}: {error}")
            continue
        found += [f"{case}, spelling {spelling}: {text}" for text in judgement.wrong]
        plain = plain if plain is not None else judgement.verdict
        if judgement.verdict != plain:
            found.append(f"{case}, spelling {spelling}: {judgement.verdict}, but plainly {plain}")
    return found
