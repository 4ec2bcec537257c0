"""What a compile can be told: every option that can change an artifact, and where progress goes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

from redfuser.cascade.kinds import KINDS
from redfuser.errors import UsageError
from redfuser.machine.threads import require_threads
from redfuser.records import digest
from redfuser.signature import DimRange
from redfuser.targets import CpuTarget, Target

if TYPE_CHECKING:
    from redfuser.tuning.record import TuningLock

Numerics = Literal["exact", "relaxed"]
Fp32 = Literal["tf32", "3xtf32", "ieee"]
V = TypeVar("V")


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
    bounds = (value.low, value.high) if isinstance(value, DimRange) else (value,)
    if not all(map(_is_extent, map(str, bounds))) or bounds[0] > bounds[-1]:
        raise UsageError(
            f"--dim {name}: {value!r} isn't a positive integer", f"for a range, DimRange or {name}=LOW:HIGH"
        )
    return value if isinstance(value, DimRange) else int(str(value))


def _checked_shape(name: str, shape: Iterable[object]) -> tuple[int, ...]:
    extents = [str(extent) for extent in shape]
    if not all(map(_is_extent, extents)):
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


class Progress(Protocol):
    """Where a long operation says what it is doing. Never the result: that is a return value."""

    def stage(self, name: str) -> None:
        """A new stage begins; the one before has ended."""

    def note(self, text: str) -> None:
        """Something worth a line in a log."""

    def warn(self, text: str) -> None:
        """Something that must be seen although the work goes on."""

    def step(self, done: int, total: int) -> None:
        """``done`` of ``total`` parts of the current stage are finished."""

    def status(self, text: str) -> None:
        """How the current stage stands, in a few words: the best so far."""


class Silent:
    """A :class:`Progress` that says nothing."""

    def stage(self, name: str) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored."""

    def warn(self, text: str) -> None:
        """Ignored."""

    def step(self, done: int, total: int) -> None:
        """Ignored."""

    def status(self, text: str) -> None:
        """Ignored."""


def parse_dims(items: Iterable[str]) -> dict[str, int | DimRange]:
    """``["batch=1", "seq=1:512"]`` as a mapping: a value fixes a dimension, a range leaves it symbolic.

    Raises:
        UsageError: an item isn't ``NAME=EXTENT`` or ``NAME=LOW:HIGH`` of positive integers, or a name comes twice.
    """
    dims: dict[str, int | DimRange] = {}
    for item in items:
        name, found, value = item.rpartition("=")
        low, colon, high = value.partition(":")
        if not found or not name or not _is_extent(low) or bool(colon) != _is_extent(high):
            raise UsageError(
                f"--dim {item!r} isn't NAME=EXTENT or NAME=LOW:HIGH with positive extents",
                "for example --dim batch=1 --dim seq=1:512",
            )
        if colon and int(low) > int(high):
            raise UsageError(f"--dim {item!r}: the range is empty", f"for example --dim {name}={high}:{low}")
        fixed = not colon or low == high
        _add_once("--dim", dims, name, int(low) if fixed else DimRange(int(low), int(high)))
    return dims


def parse_shapes(items: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """``["input_ids=1x128"]`` as a mapping; ``scalar`` stands for the empty shape.

    Raises:
        UsageError: an item isn't ``NAME=EXTENTxEXTENT…``, or a name comes twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for item in items:
        name, found, value = item.rpartition("=")
        extents = [] if value == "scalar" else value.split("x")
        if not found or not name or not all(map(_is_extent, extents)):
            raise UsageError(f"--shape {item!r} isn't NAME=EXTENTS", "for example --shape input_ids=1x128")
        _add_once("--shape", shapes, name, tuple(map(int, extents)))
    return shapes


def parse_values(items: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """``["axes=0,-1", "causal=true"]`` as a mapping: elements of inputs, in order.

    Raises:
        UsageError: an item isn't ``NAME=NUMBER,NUMBER…``, or a name comes twice.
    """
    values: dict[str, tuple[float, ...]] = {}
    for item in items:
        name, found, text = item.rpartition("=")
        try:
            numbers = tuple(_number(word) for word in text.split(",")) if text else ()
        except ValueError:
            found = ""
        if not found or not name:
            raise UsageError(f"--value {item!r} isn't NAME=NUMBERS", "for example --value axes=0,-1")
        _add_once("--value", values, name, numbers)
    return values


def _number(word: str) -> float:
    truth = {"true": 1, "false": 0}.get(word.strip().lower())
    if truth is not None:
        return truth
    try:
        return int(word)
    except ValueError:
        return float(word)


def parse_gates(items: Iterable[str]) -> tuple[Gate, ...]:
    """``["attention>=12"]`` as gates; a bare kind means at least one, ``any`` counts all kinds.

    Raises:
        UsageError: an item isn't ``KIND>=COUNT`` or ``KIND==COUNT``, or the kind is unknown.
    """
    gates = []
    for item in items:
        match = re.fullmatch(r"\s*(\w+)\s*(?:(>=|==)\s*(\d{1,9}))?\s*", item, re.ASCII)
        if match is None:
            raise UsageError(f"--require-fused {item!r} isn't KIND>=COUNT", "for example 'attention>=12'")
        kind, comparison, count = match.groups()
        if kind not in (*KINDS, "any"):
            raise UsageError(f"--require-fused {item!r}: no such kind", f"kinds are {', '.join(KINDS)}, any")
        gates.append(Gate(kind, "==" if comparison == "==" else ">=", int(count or 1)))
    return tuple(gates)


def _is_extent(text: str) -> bool:
    return re.fullmatch(r"[1-9]\d{0,17}", text, re.ASCII) is not None


def _add_once(option: str, values: dict[str, V], name: str, value: V) -> None:
    if name in values:
        raise UsageError(f"{option} gives {name!r} twice", "keep one of them")
    values[name] = value


def parse_budget(text: str) -> float:
    """``60s``, ``5m``, ``1h`` or ``off`` as seconds.

    Raises:
        UsageError: it is none of these.
    """
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)", text, re.ASCII)
    if text != "off" and match is None:
        raise UsageError(f"a budget of {text!r} isn't a duration", "for example 60s, 5m or off")
    return 0.0 if match is None else float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]
