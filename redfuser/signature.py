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
