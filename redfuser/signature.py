"""What goes into and comes out of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Args:
        name: as the model spells it; untrusted text, never a file name or an identifier.
        shape: extents, all static.
        dtype: NumPy-style name, or ``bfloat16``, ``float8_e4m3fn`` and the like.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
