"""Phases of a tile program that needn't be interpreted again: of integers alone, on inputs seen before.

The bounds of what a mask lets through are found row by row, and are the same in every precision and for every set of
the other inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from redfuser.expr import Expr, Tensor, loads, walk
from redfuser.tile.ir import Phase, Statement, Store, TileProgram
from redfuser.tile.walk import statements

Array = np.ndarray[Any, Any]

#: What a phase left in memory: contents, and where it wrote.
Left = dict[Tensor, tuple[Array, Array]]


@dataclass
class Memory:
    """Results of phases of one program, kept between interpretations.

    Args:
        results: by phase and blocks: the inputs that were read, which stay alive so that they can be told from others,
            and what was left. The last inputs alone are remembered.
    """

    results: dict[tuple[Phase, tuple[int, ...]], tuple[tuple[Array, ...], Left]] = field(default_factory=dict)

    def recall(self, phase: Phase, blocks: tuple[int, ...], read: Sequence[Array]) -> Left | None:
        """What the phase left when it read these very arrays; None if it isn't known."""
        before, left = self.results.get((phase, blocks), ((), {}))
        same = bool(left) and all(a is b for a, b in zip(before, read, strict=True))
        return {t: (values.copy(), where.copy()) for t, (values, where) in left.items()} if same else None

    def keep(self, phase: Phase, blocks: tuple[int, ...], read: Sequence[Array], left: Left) -> None:
        copies = {tensor: (values.copy(), where.copy()) for tensor, (values, where) in left.items()}
        self.results[phase, blocks] = tuple(read), copies


def exact_inputs(program: TileProgram, phase: Phase) -> tuple[Tensor, ...] | None:
    """The inputs that decide what a phase leaves, whatever the precision; None where that isn't so."""
    read = {node.tensor for e in _expressions(phase.body) for node in loads(e)} - {b.tensor for b in phase.buffers}
    exact = all(_is_exact(node.dtype) for e in _expressions(phase.body) for node in walk(e))
    others = {tensor for other in program.phases if other is not phase for tensor in stored(other)}
    if not exact or not read <= set(program.inputs) or others & set(stored(phase)):
        return None
    return tuple(tensor for tensor in program.inputs if tensor in read)


def stored(phase: Phase) -> tuple[Tensor, ...]:
    """Tensors in memory that a phase writes."""
    return tuple(dict.fromkeys(s.tensor for s in statements(phase.body) if isinstance(s, Store)))


def arrays(tensors: Sequence[Tensor], inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """The contents of some inputs."""
    return tuple(inputs[tensor.name] for tensor in tensors)


def _is_exact(dtype: str) -> bool:
    return dtype == "bool" or dtype.startswith(("int", "uint"))


def _expressions(body: Sequence[Statement]) -> Iterator[Expr]:
    """Every expression that statements evaluate."""
    for statement in statements(body):
        for each in fields(statement):
            value = getattr(statement, each.name)
            yield from (item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Expr))
