"""The fusion report as a value. Its JSON form is the schema ``redfuser.report/1``.

All mathematics is text here, so that a report can be read, rendered and compared without any compiler stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from redfuser.cascade.kinds import KINDS
from redfuser.reason import Reason
from redfuser.records import RecordError, decode, encode, parse, to_text
from redfuser.report.derivation_entries import DerivationEntry, ReductionEntry
from redfuser.signature import TensorSpec

SCHEMA = "redfuser.report/1"


@dataclass(frozen=True)
class ModelInfo:
    """The model compiled: file name without folder, SHA-256 of its files, opset, number of nodes, signature."""

    name: str
    sha256: str
    opset: int
    nodes: int
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True)
class TargetInfo:
    """The device compiled for: name, ``cpu`` or ``gpu``, architecture, further features, cores or multiprocessors."""

    name: str
    kind: str
    arch: str
    features: tuple[str, ...] = ()
    cores: int = 0


@dataclass(frozen=True)
class Traffic:
    """Compulsory memory traffic of a cascade, fused and unfused, and its arithmetic."""

    read_bytes: int
    write_bytes: int
    unfused_read_bytes: int
    unfused_write_bytes: int
    flops: int

    @property
    def saved(self) -> float:
        """How many times less memory the fused form moves."""
        unfused = self.unfused_read_bytes + self.unfused_write_bytes
        return unfused / max(1, self.read_bytes + self.write_bytes)


@dataclass(frozen=True)
class Time:
    """Time of one execution, and whether it was measured or comes from the cost model."""

    value_us: float
    how: Literal["measured", "modelled"]


@dataclass(frozen=True)
class ChoiceEntry:
    """How a schedule was chosen.

    Args:
        timed: candidates timed, of which it was the fastest or as fast as the fastest; 0 where a lock says so.
        noise: relative spread of its times.
        points: schedules surveyed; 0 where a rule chose without.
        candidates: those of them that obey every constraint.
        excluded: text of a constraint -> how many broke it.
        gain: how many times longer the same takes unfused; 0 where that wasn't measured.
        how: by times measured, by times modelled, or by a rule.
        locked: whether a lock says so.
        why: the rule in words.
        compiled: schedules compiled for it, where a compiler may refuse some.
        refused: what is wrong with a schedule -> how many of those compiled were refused for it.
        next_us: modelled time of the runner-up; for a rule, of the next in line; 0 where none is known.
    """

    timed: int = 0
    noise: float = 0.0
    points: int = 0
    candidates: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)
    gain: float = 0.0
    how: Literal["measured", "modelled", "rule"] = "measured"
    locked: bool = False
    why: str = ""
    compiled: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    next_us: float = 0.0

    def __str__(self) -> str:
        parts = [self._how()]
        if self.gain:
            parts.append(f"unfused {self.gain:.2f} times as long")
        if self.refused:
            parts.append(f"{sum(self.refused.values())} of {self.compiled} compiled refused: {_counts(self.refused)}")
        if self.points:
            reasons = f": {_counts(self.excluded)}" if self.excluded else ""
            parts.append(f"{self.candidates:,} of {self.points:,} candidates{reasons}")
        return "; ".join(parts)

    def _how(self) -> str:
        if self.how == "rule":
            return "by rule, says the lock" if self.locked else f"by rule: {self.why}"
        if self.how == "modelled":
            fitting = self.compiled - sum(self.refused.values())
            return f"the least modelled time{', says the lock' if self.locked else f' of {fitting} that fit'}"
        return f"the fastest of {self.timed} timed, ±{self.noise:.0%}" if self.timed else "the fastest, says the lock"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {text}" for text, count in counts.items())


@dataclass(frozen=True)
class NumericError:
    """Error against float64 on the check inputs: of the kernel, of the unfused graph, and whether the rule is met."""

    rmse: float
    unfused_rmse: float | None
    max_abs: float
    passed: bool


@dataclass(frozen=True)
class BoundaryEntry:
    """A reduction that uses the cascade's result and was kept out of it: its ONNX nodes, and why."""

    onnx_nodes: tuple[str, ...]
    reason: Reason


@dataclass(frozen=True)
class CascadeEntry:
    """Everything known about one candidate, fused or not.

    Args:
        id: unique in the report; a safe identifier.
        kind: one of ``cascade.kinds.KINDS``.
        verdict: what was done.
        reason: why not, for ``unfused``; null exactly for ``fused``.
        onnx_nodes: names of the nodes covered; untrusted text.
        reductions: in the cascade's order.
        derivation: null where the algebra wasn't reached.
        exactness: ``exact`` or ``reordered-rounding``; null where nothing is claimed.
        strategy: ``single-segment``, ``multi-segment``, ``resident`` or ``unfused``.
        schedule: the choices made, by name.
        choice: how they were made; null where none were.
        boundaries: where the cascade ends although a reduction that uses it follows.
        resources: what the compiler says of the kernel: registers, shared memory, spills and the like, by name.
        products: what the kernel's matrix products are computed in on a GPU: a type, on tensor cores, and of float32
            ``tf32``, ``3xtf32`` or, without tensor cores, ``ieee``.
    """

    id: str
    kind: str
    verdict: Literal["fused", "unfused"]
    reason: Reason | None
    onnx_nodes: tuple[str, ...]
    reductions: tuple[ReductionEntry, ...]
    derivation: DerivationEntry | None = None
    exactness: str | None = None
    strategy: str = "unfused"
    schedule: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    choice: ChoiceEntry | None = None
    traffic: Traffic | None = None
    time: Time | None = None
    error: NumericError | None = None
    boundaries: tuple[BoundaryEntry, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    products: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.id}: unknown kind {self.kind!r}")
        if (self.verdict == "fused") != (self.reason is None):
            raise ValueError(f"{self.id}: a reason goes with every unfused cascade and with no fused one")

    @property
    def fused(self) -> bool:
        """Whether one kernel computes the whole cascade."""
        return self.verdict == "fused"


@dataclass(frozen=True)
class ProductEntry:
    """The kernel of a matrix product that belongs to no cascade.

    Args:
        id: of the kernel.
        strategy, schedule, resources, choice, time, products: as for a :class:`CascadeEntry`.
    """

    id: str
    strategy: str
    schedule: Mapping[str, bool | int | float | str]
    resources: Mapping[str, int] = field(default_factory=dict)
    choice: ChoiceEntry | None = None
    time: Time | None = None
    products: tuple[str, ...] = ()


@dataclass(frozen=True)
class FusionReport:
    """The report of one compile."""

    model: ModelInfo
    target: TargetInfo
    cascades: tuple[CascadeEntry, ...]
    products: tuple[ProductEntry, ...] = ()

    @property
    def fused(self) -> int:
        """Number of fused cascades."""
        return sum(entry.fused for entry in self.cascades)

    def kinds(self, fused_only: bool = False) -> dict[str, int]:
        """Number of cascades of each kind that occurs, sorted by kind."""
        return dict(sorted(Counter(e.kind for e in self.cascades if e.fused or not fused_only).items()))

    def summary(self) -> dict[str, Any]:
        """The counts that the JSON form carries."""
        return {"cascades": len(self.cascades), "fused": self.fused, "kinds": self.kinds()}

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data = encode(self)
        return {
            "schema": SCHEMA,
            "model": data["model"],
            "target": data["target"],
            "summary": self.summary(),
            "cascades": data["cascades"],
            **({"products": data["products"]} if self.products else {}),
        }

    def to_json(self) -> str:
        """The report as deterministic JSON text."""
        return to_text(self.as_data())

    @staticmethod
    def from_json(text: str) -> FusionReport:
        """Read a report back, checking every key.

        Raises:
            RecordError: the text isn't a report of this schema; the message names the place.
        """
        data = parse(text)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise RecordError(f"schema: not a {SCHEMA} document")
        body = {key: value for key, value in data.items() if key not in ("schema", "summary")}
        report = decode(FusionReport, body)
        if data.get("summary") != report.summary():
            raise RecordError("summary: doesn't agree with the cascades")
        return report

    def __str__(self) -> str:
        lines = [f"report on {self.model.name} for {self.target.name}: {self.fused} of {len(self.cascades)} fused"]
        for entry in self.cascades:
            lines.append(f"  {entry.id} {entry.kind} {entry.verdict} {entry.strategy} {entry.reason or ''}".rstrip())
        return "\n".join(lines)
