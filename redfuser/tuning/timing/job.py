"""What a measuring process is told and what it answers: lines of JSON, see :mod:`redfuser.tuning.timing.worker`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from redfuser.tile.ir import TileProgram


@dataclass(frozen=True)
class Argument:
    """One array that a kernel is called with."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Job:
    """A compiled kernel to time.

    Args:
        library: path of the shared library that holds it.
        function: its name there.
        arguments: what it is called with: inputs, then outputs.
        outputs: how many of the arguments, the last ones, are written.
        machine: whether the function is one of a Relax virtual machine, which makes its outputs itself.
    """

    library: str
    function: str
    arguments: tuple[Argument, ...]
    outputs: int
    machine: bool = False


@dataclass(frozen=True)
class Plan:
    """How to time: ``rounds`` turns, in each of which every kernel runs for about ``milliseconds``."""

    rounds: int = 5
    milliseconds: float = 10.0
    seed: int = 0


@dataclass(frozen=True)
class Timing:
    """Seconds a call took, one figure a turn."""

    seconds: tuple[float, ...]

    @property
    def median_us(self) -> float:
        """The median in microseconds."""
        return median(self.seconds) * 1e6

    @property
    def least_us(self) -> float:
        """The least in microseconds."""
        return min(self.seconds) * 1e6

    @property
    def noise(self) -> float:
        """Half the range that the middle half of the turns covers, relative to the median."""
        ordered = sorted(self.seconds)
        quarter = len(ordered) // 4
        return (ordered[-1 - quarter] - ordered[quarter]) / 2 / max(median(ordered), 1e-12)

    def __str__(self) -> str:
        return f"{self.median_us:.4g} us ±{self.noise:.0%}"


@dataclass(frozen=True)
class Failure:
    """Why there is no time."""

    text: str

    def __str__(self) -> str:
        return self.text


Result = Timing | Failure


def arguments_of(program: TileProgram) -> tuple[Argument, ...]:
    """The arrays a program is called with."""
    return tuple(Argument(tensor.shape, tensor.dtype) for tensor in (*program.inputs, *program.outputs))
