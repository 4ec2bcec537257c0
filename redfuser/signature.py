"""What goes into and comes out of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class DimRange:
    """Values that a symbolic dimension may have when the module runs: ``low <= value <= high``."""

    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def clamp(self, value: int) -> int:
        """The allowed value nearest to one."""
        return min(max(value, self.low), self.high)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


#: Range of a symbolic dimension that was given none.
ANY_SIZE = DimRange(1, 65536)


@dataclass(frozen=True)
class DimSum:
    """What a symbolic dimension has to be where others decide it: ``constant + Σ count · dimension``.

    Args:
        counts: of each of the others, by name; above 0.
        constant: 0 or above.
    """

    counts: Mapping[str, int]
    constant: int = 0

    def at(self, sizes: Mapping[str, int]) -> int:
        """The sum where the others have these sizes."""
        return self.constant + sum(count * sizes[name] for name, count in self.counts.items())

    def rest(self, total: int, name: str, sizes: Mapping[str, int]) -> int:
        """The largest size of one of the others at which the sum is ``total`` at most."""
        return (total - self.at({**sizes, name: 0})) // self.counts[name]

    def replaced(self, name: str, other: DimSum) -> DimSum:
        """The same sum where one of its dimensions is a sum itself."""
        if name not in self.counts:
            return self
        counts = {dim: count for dim, count in self.counts.items() if dim != name}
        for dim, count in other.counts.items():
            counts[dim] = counts.get(dim, 0) + self.counts[name] * count
        return DimSum(counts, self.constant + self.counts[name] * other.constant)

    def __str__(self) -> str:
        parts = [name if count == 1 else f"{count} * {name}" for name, count in self.counts.items()]
        return " + ".join([*parts, *([str(self.constant)] * bool(self.constant))])


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Args:
        name: as the model spells it; untrusted text, never a file name or an identifier.
        shape: extents; text where they are known on the call only: the name of a symbolic dimension or, of an
            output, what is computed from some.
        dtype: NumPy-style name, or ``bfloat16``, ``float8_e4m3fn`` and the like.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def at(self, sizes: Mapping[str, int]) -> TensorSpec:
        """The same with values for symbolic dimensions."""
        return replace(self, shape=tuple(sizes.get(n, n) if isinstance(n, str) else n for n in self.shape))

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
