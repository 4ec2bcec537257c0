"""What a benchmark found, as a value. Its JSON form is the schema ``redfuser.bench/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from redfuser.records import encode, to_text
from redfuser.report.document import Document, Section

SCHEMA: Literal["redfuser.bench/1"] = "redfuser.bench/1"


@dataclass(frozen=True)
class Measurement:
    """Times of one side.

    Args:
        side: its name.
        median_us, least_us: of all calls.
        noise: half the range of the middle half of the calls, relative to the median.
        ratio: how many times longer than the first side it takes; above 1 the first side is faster.
        roofline: share of what the machine allows; null where the work isn't known.
    """

    side: str
    median_us: float
    least_us: float
    noise: float
    ratio: float
    roofline: float | None = None


@dataclass(frozen=True)
class CaseResult:
    """One case: every side that could run it, and why the others couldn't.

    Args:
        name: of the case.
        sides: the first one is what the ratios refer to.
        absent: name of a side -> why it wasn't measured.
        flops, bytes: what the case must compute and move; 0 where that isn't known.
    """

    name: str
    sides: tuple[Measurement, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class BenchResult:
    """One run of the benchmark.

    Args:
        schema: format version.
        title: the model or workload.
        machine: its processor, or the GPU.
        threads: of every side; 0 on a GPU.
        peak_gflops, bandwidth_gbs: measured on the spot; 0 where they weren't.
        versions: of what was measured.
        cases: in the order asked for.
    """

    schema: Literal["redfuser.bench/1"]
    title: str
    machine: str
    threads: int
    peak_gflops: float
    bandwidth_gbs: float
    versions: Mapping[str, str]
    cases: tuple[CaseResult, ...]

    def to_json(self) -> str:
        """The result as JSON text."""
        return to_text(encode(self))

    def document(self) -> Document:
        """A table with a row for each side of each case."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        where = f"{self.threads} threads on {self.machine}" if self.threads else f"on {self.machine}"
        lead = [f"{self.title}: {where}", versions]
        if self.peak_gflops:
            lead.append(f"measured here: {self.peak_gflops:.0f} GFLOP/s, {self.bandwidth_gbs:.1f} GB/s")
        rows = [_row(case, side, number) for case in self.cases for number, side in enumerate(case.sides)]
        lead += [f"{case.name}: no {side}: {why}" for case in self.cases for side, why in case.absent.items()]
        header = ("case", "side", "median", "least", "noise", "ratio", "roofline")
        sections: tuple[Section, ...] = ()
        return Document(f"Benchmark: {self.title}", tuple(lead), header, tuple(rows), sections)

    def __str__(self) -> str:
        lines = [f"benchmark of {self.title}, {self.threads} threads" if self.threads else f"benchmark of {self.title}"]
        lines += [f"  {case.name} {side.side}: {side.median_us:.4g} us" for case in self.cases for side in case.sides]
        return "\n".join(lines)


def summarise(
    name: str,
    times: Mapping[str, list[float]],
    absent: Mapping[str, str],
    flops: int = 0,
    moved: int = 0,
    floor_us: float = 0.0,
) -> CaseResult:
    """The result of one case.

    Args:
        times: side -> seconds of each call; the first side is what the ratios refer to.
        floor_us: the time the machine can't beat; 0 if it isn't known.
    """
    middle = {side: median(taken) * 1e6 for side, taken in times.items()}
    first = next(iter(middle.values()))
    sides = [
        Measurement(
            side=side,
            median_us=round(middle[side], 3),
            least_us=round(min(taken) * 1e6, 3),
            noise=round(_noise(taken), 4),
            ratio=round(middle[side] / first, 3),
            roofline=round(floor_us / middle[side], 3) if floor_us else None,
        )
        for side, taken in times.items()
    ]
    return CaseResult(name, tuple(sides), dict(absent), flops, moved)


def _noise(taken: list[float]) -> float:
    ordered = sorted(taken)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / 2 / max(median(ordered), 1e-12)


def _row(case: CaseResult, side: Measurement, number: int) -> tuple[str, ...]:
    return (
        case.name if number == 0 else "",
        side.side,
        duration(side.median_us),
        duration(side.least_us),
        f"{side.noise:.0%}",
        f"{side.ratio:.2f}" if number else "",
        "" if side.roofline is None else f"{side.roofline:.0%}",
    )


def duration(us: float) -> str:
    """Microseconds for people."""
    return f"{us:.3g} us" if us < 1000 else f"{us / 1000:.4g} ms"
