"""What tuning found, as data: one cascade's record, and the lock that holds those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from redfuser.errors import UsageError
from redfuser.records import RecordError, decode, digest, encode, parse, to_text
from redfuser.targets import Target
from redfuser.tile.ir import Schedule
from redfuser.tuning.spaces.space import Survey
from redfuser.versions import GPU_TOOLS, tool_versions

SCHEMA: Literal["redfuser.tuning/3"] = "redfuser.tuning/3"
#: Tools whose version changes machine code.
CODE_TOOLS = ("apache-tvm", "redfuser")
#: A kernel may take so much longer than the unfused graph before it is given up: less can't be told from noise.
TOLERATED = 0.05


@dataclass(frozen=True)
class ScheduleRecord:
    """A schedule; see :class:`redfuser.tile.ir.Schedule`."""

    strategy: str
    tiles: Mapping[str, int] = field(default_factory=dict)
    segments: int = 1
    lanes: str = ""
    options: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(schedule: Schedule) -> ScheduleRecord:
        """The record of a schedule."""
        tiles, options = dict(schedule.tiles), dict(schedule.options)
        return ScheduleRecord(schedule.strategy, tiles, schedule.segments, schedule.lanes, options)

    def schedule(self) -> Schedule:
        """The schedule recorded, names in alphabetical order."""
        tiles, options = tuple(sorted(self.tiles.items())), tuple(sorted(self.options.items()))
        return Schedule(self.strategy, tiles, self.segments, self.lanes, options)


@dataclass(frozen=True)
class SpaceRecord:
    """How many schedules there were, how many of them obey every constraint, and why the others don't."""

    points: int
    candidates: int
    excluded: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(survey: Survey) -> SpaceRecord:
        """The counts of a survey."""
        return SpaceRecord(survey.total, len(survey.candidates), survey.excluded)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {text}" for text, count in self.excluded.items())
        return f"{self.candidates:,} of {self.points:,} candidates" + (f": {reasons}" if reasons else "")


@dataclass(frozen=True)
class Record:
    """The schedule chosen for one cascade, and how it was.

    Args:
        cascade: digest of the cascade, see :func:`redfuser.cascade.identity.cascade_digest`.
        schedule: what was chosen.
        how: ``measured`` against others, or ``modelled``.
        time_us: of one execution, measured or modelled likewise.
        noise: relative spread of the times measured.
        trials: how many candidates were timed.
        space: how many there were.
        gain: how many times longer the same part of the model takes unfused; 0 where that wasn't measured.
        kernel: SHA-256 of the kernel's text; empty until it is generated.
    """

    cascade: str
    schedule: ScheduleRecord
    how: Literal["measured", "modelled"]
    time_us: float
    noise: float = 0.0
    trials: int = 0
    space: SpaceRecord | None = None
    gain: float = 0.0
    kernel: str = ""

    @property
    def unprofitable(self) -> bool:
        """Whether the cascade is faster unfused, so that the schedule isn't used."""
        return 0 < self.gain < 1 / (1 + TOLERATED)


@dataclass(frozen=True)
class TuningLock:
    """The records of one compile. Its text is sorted, so that a diff shows what changed.

    Args:
        schema: format version.
        target: name of the target.
        target_digest: of the whole description.
        tools: versions that machine code depends on.
        kernels: record by kernel name.
    """

    schema: Literal["redfuser.tuning/3"]
    target: str
    target_digest: str
    tools: Mapping[str, str]
    kernels: Mapping[str, Record]

    @staticmethod
    def make(target: Target, kernels: Mapping[str, Record]) -> TuningLock:
        """The lock of records found for a target with the tools installed here."""
        return TuningLock(SCHEMA, target.name, digest(target), code_tools(target), kernels)

    def find(self, cascade: str) -> Record | None:
        """The record of a cascade, by its digest."""
        return next((record for record in self.kernels.values() if record.cascade == cascade), None)

    def obstacle(self, target: Target) -> str:
        """Why the lock can't serve a compile for a target with the tools installed here; empty if it can."""
        if self.target_digest != digest(target):
            return f"it was made for another target ({self.target})"
        for name, version in code_tools(target).items():
            if self.tools.get(name) != version:
                return f"it was made with {name} {self.tools.get(name, 'absent')}, and {version} is installed"
        return ""

    def as_data(self) -> dict[str, Any]:
        """JSON-ready data."""
        data: dict[str, Any] = encode(self)
        return data

    def to_json(self) -> str:
        """The lock as deterministic JSON text."""
        return to_text(self.as_data())

    def __str__(self) -> str:
        lines = [f"tuning lock for {self.target}, {len(self.kernels)} kernels"]
        lines += [f"  {name}: {record.schedule.schedule().as_dict()}" for name, record in self.kernels.items()]
        return "\n".join(lines)


def code_tools(target: Target) -> dict[str, str]:
    """Versions of the tools that machine code for a target depends on."""
    versions = tool_versions(target.kind)
    names = (*CODE_TOOLS, *(GPU_TOOLS if target.kind == "gpu" else ()))
    return {name: versions[name] for name in names}


def read_lock(path: Path) -> TuningLock:
    """The lock in a file, or in the folder of an artifact.

    Raises:
        UsageError: there is none, or it can't be read.
    """
    file = path / "tuning.lock" if path.is_dir() else path
    try:
        return decode(TuningLock, _checked(parse(file.read_text(encoding="utf-8"))))
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {error.strerror}", "redfuser tune writes one") from error
    except (UnicodeDecodeError, RecordError) as error:
        raise UsageError(f"{str(file)!r} isn't a tuning lock: {error}", "redfuser tune writes one") from error


def is_lock(path: Path) -> bool:
    """Whether a file is a tuning lock, of this version or another."""
    try:
        data = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecordError):
        return False
    return isinstance(data, dict) and str(data.get("schema")).startswith(SCHEMA.rpartition("/")[0])


def _checked(data: Any) -> Any:
    # Before all else, so that another version is named as such and not as an unknown key.
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise RecordError(f"schema: {found!r} is not {SCHEMA!r}")
    return data
