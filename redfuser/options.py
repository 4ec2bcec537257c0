"""What a compile can be told: every option that can change an artifact."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from redfuser.errors import UsageError
from redfuser.machine.threads import require_threads
from redfuser.records import digest
from redfuser.signature import DimRange
from redfuser.targets import CpuTarget, Target

if TYPE_CHECKING:
    from redfuser.tuning.record import TuningLock

Numerics = Literal["exact", "relaxed"]
Fp32 = Literal["tf32", "3xtf32", "ieee"]


@dataclass(frozen=True)
class Gate:
    """A condition on the number of fused cascades of one kind, or of all (``any``)."""

    kind: str
    comparison: Literal[">=", "=="]
    count: int

    def holds(self, fused: int) -> bool:
        """Whether that many fused cascades satisfy the gate."""
        return fused >= self.count if self.comparison == ">=" else fused == self.count

    def __str__(self) -> str:
        return f"{self.kind}{self.comparison}{self.count}"


@dataclass(frozen=True)
class CompileOptions:
    """Everything that can change an artifact.

    Args:
        target: the device, fully described.
        dims: values of symbolic dimensions by name, or the ranges they stay symbolic over.
        shapes: whole shapes of inputs by name.
        values: elements of inputs that become constants, by name.
        strict: a cascade that falls back to unfused is an error.
        numerics: ``exact`` allows re-association only; ``relaxed`` also rounding against a running scale.
        fp32: matrix products of float32 on a GPU's tensor cores: as TF32, as three of them for nearly the accuracy
            of float32, or not there at all.
        require_fused: gates on the result.
        fail_on_missed: any unfused cascade fails the compile after the report is made.
        seed: of the inputs that kernels are checked on.
        threads: threads that kernels are planned for; ``None`` means the target's cores.
        tune_seconds: what may be spent on timing candidates; 0 for none.
        trials: candidates timed for one cascade, at most.
        lock: schedules chosen before; they go before everything else.
        locked: a cascade without a schedule in the lock is an error.

    Raises:
        UsageError: an extent isn't a positive integer, or an element not a finite number: no manifest holds it.
    """

    target: Target
    dims: Mapping[str, int | DimRange] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    strict: bool = False
    numerics: Numerics = "exact"
    fp32: Fp32 = "tf32"
    require_fused: tuple[Gate, ...] = ()
    fail_on_missed: bool = False
    seed: int = 0
    threads: int | None = None
    tune_seconds: float = 0.0
    trials: int = 64
    lock: TuningLock | None = None
    locked: bool = False

    def __post_init__(self) -> None:
        # From Python come NumPy's numbers, and mistakes.
        object.__setattr__(self, "dims", {name: _checked_dim(name, value) for name, value in self.dims.items()})
        object.__setattr__(self, "shapes", {name: _checked_shape(name, value) for name, value in self.shapes.items()})
        object.__setattr__(self, "values", {name: _checked_value(name, value) for name, value in self.values.items()})
        if self.numerics not in get_args(Numerics):
            raise UsageError(f"there are no numerics {self.numerics!r}", f"one of {', '.join(get_args(Numerics))}")
        if self.fp32 not in get_args(Fp32):
            raise UsageError(f"there is no fp32 {self.fp32!r}", f"one of {', '.join(get_args(Fp32))}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise UsageError(f"seed: {self.seed!r} isn't a whole number from 0 on")
        require_threads(self.threads)
        if self.threads is not None and isinstance(self.target, CpuTarget):
            object.__setattr__(self, "target", replace(self.target, cores=self.threads))

    def digest(self) -> str:
        """SHA-256 of all options: equal digests and equal models give equal artifacts."""
        return digest(self)


def _checked_dim(name: str, value: Any) -> int | DimRange:
    bounds = [value.low or 1, value.high] if isinstance(value, DimRange) else [value]  # a past may be 0
    if not all(map(is_extent, map(str, bounds))) or bounds[0] > bounds[-1]:
        raise UsageError(
            f"--dim {name}: {value!r} isn't a positive integer", f"for a range, DimRange or {name}=LOW:HIGH"
        )
    return value if isinstance(value, DimRange) else int(str(value))


def _checked_shape(name: str, shape: Iterable[object]) -> tuple[int, ...]:
    extents = [str(extent) for extent in shape]
    if not all(map(is_extent, extents)):
        raise UsageError(f"--shape {name}: {'x'.join(extents)} isn't made of positive integers")
    return tuple(map(int, extents))


def _checked_value(name: str, elements: Iterable[Any]) -> tuple[float, ...]:
    numbers = [element.item() if hasattr(element, "item") else element for element in elements]
    if not all(
        abs(number) < 2**64 if isinstance(number, int) else isinstance(number, float) and math.isfinite(number)
        for number in numbers
    ):
        raise UsageError(f"--value {name}: only finite numbers can be fixed", "leave it an input")
    return tuple(numbers)


def is_extent(text: str) -> bool:
    """Whether a text is a positive integer that a dimension can have."""
    return re.fullmatch(r"[1-9]\d{0,17}", text, re.ASCII) is not None
