"""What tuning found, as data: one cascade's record, and the lock that holds those of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from redfuser.errors import UsageError
from redfuser.machine.versions import GPU_TOOLS, tool_versions
from redfuser.records import RecordError, decode, digest, encode, parse, to_text
from redfuser.targets import Target
from redfuser.tile.ir import Schedule
from redfuser.tuning.spaces.space import Survey

SCHEMA: Literal["redfuser.tuning/4"] = "redfuser.tuning/4"
#: Tools whose version changes machine code.
CODE_TOOLS = ("apache-tvm", "redfuser")
#: A kernel may take so much longer than the unfused graph before it is given up: less can't be told from noise.
TOLERATED = 0.05
#: What differs from one tuning to the next though it chooses the same. Locks leave it out.
MEASURED = ("time_us", "noise", "trials", "gain", "told")


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
class Told:
    """What a report tells of a choice, and a lock doesn't.

    Args:
        why: the rule that made it, in words; empty where times did.
        locked: whether a lock gave it.
        compiled: schedules compiled for it, where a compiler may refuse some.
        refused: what is wrong with a schedule -> how many of those compiled were refused for it.
        next_us: modelled time of the runner-up, or of the next in line; 0 where none is known.
    """

    why: str = ""
    locked: bool = False
    compiled: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    next_us: float = 0.0


@dataclass(frozen=True)
class Record:
    """The schedule chosen for one cascade, and how it was. Records are equal if they decide the same.

    Args:
        cascade: digest of the cascade, see :func:`redfuser.cascade.identity.cascade_digest`.
        schedule: what was chosen.
        how: ``measured`` against others, or ``modelled``.
        fused: whether it is used; not where the unfused graph was measured to be faster.
        space: how many candidates there were.
        kernel: SHA-256 of the kernel's text; empty until it is generated.
        time_us: of one execution, measured if any candidate was timed, else modelled.
        noise: relative spread of the times measured.
        trials: how many candidates were timed for this record; 0 for one that comes from a lock.
        gain: how many times longer the same part of the model takes unfused; 0 where that wasn't measured.
        told: what else a report tells of the choice.
    """

    cascade: str
    schedule: ScheduleRecord
    how: Literal["measured", "modelled"]
    fused: bool = True
    space: SpaceRecord | None = None
    kernel: str = ""
    time_us: float = field(default=0.0, compare=False)
    noise: float = field(default=0.0, compare=False)
    trials: int = field(default=0, compare=False)
    gain: float = field(default=0.0, compare=False)
    told: Told = field(default_factory=Told, compare=False)

    def decided(self, modelled_us: float) -> Record:
        """What a lock tells of the record, with a time from a model."""
        return replace(self, time_us=modelled_us, noise=0.0, trials=0, gain=0.0, told=Told(locked=True))

    def against_unfused(self, gain: float) -> Record:
        """The record, a gain having been measured: what is slower fused stays unfused."""
        return replace(self, gain=gain, fused=not 0 < gain < 1 / (1 + TOLERATED))


@dataclass(frozen=True)
class TuningLock:
    """The records of one compile. Its text is sorted, and tells decisions alone, so that a diff shows what changed.

    Args:
        schema: format version.
        target: name of the target.
        target_digest: of the whole description.
        tools: versions that machine code depends on.
        kernels: record by kernel name.
    """

    schema: Literal["redfuser.tuning/4"]
    target: str
    target_digest: str
    tools: Mapping[str, str]
    kernels: Mapping[str, Record]

    @staticmethod
    def make(target: Target, kernels: Mapping[str, Record]) -> TuningLock:
        """The lock of records found for a target with the tools installed here."""
        return TuningLock(SCHEMA, target.name, digest(target), code_tools(target), kernels)

    def find(self, cascade: str, name: str = "") -> Record | None:
        """The record of a cascade, by its digest; that of this kernel's name where equal ones have several."""
        named = self.kernels.get(name)
        if named is not None and named.cascade == cascade:
            return named
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
        for record in data["kernels"].values():
            for name in MEASURED:
                del record[name]
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
