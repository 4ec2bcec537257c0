"""The tile IR: what one thread block (GPU) or one task (CPU) does to its tile. No TVM.

A program is a list of phases; a phase runs one block for every tile of its grid, all blocks
independent. Inside a block, *buffers* hold tiles of values on chip. A buffer's axes are the axes of
the whole problem. Its shape says how much of each it covers: the tile of the enclosing grid or stream,
or the whole extent: always where nothing tiles that axis, and along a streamed axis where the values
outlive the stream's iteration. Element 0 is the tile's first point, or point 0 of a whole extent.

Meaning of tails: every statement acts on the points of its axes that lie inside the axis' extent
(and inside the enclosing stream's bounds). How points outside are avoided (peeling, masks,
identities, padding) is the back end's affair and never changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from redfuser.expr import Axis, Expr, Tensor, load
from redfuser.extents import Dim, is_symbolic, most


@dataclass(frozen=True)
class Buffer:
    """Values on chip, one for each point of ``axes`` in the current tile; ``tensor.shape`` is the tile's extents."""

    tensor: Tensor
    axes: tuple[Axis, ...]

    @property
    def value(self) -> Expr:
        """The buffer's element at the current point, for use in expressions."""
        return load(self.tensor, *self.axes)

    def __str__(self) -> str:
        tile = ", ".join(f"{a.name}:{n}" for a, n in zip(self.axes, self.tensor.shape, strict=True))
        return f"{self.tensor.name}: {self.tensor.dtype}[{tile}]"


@dataclass(frozen=True)
class Fill:
    """``target = value`` everywhere."""

    target: Buffer
    value: float

    def __str__(self) -> str:
        return f"fill {self.target.value} = {self.value:g}"


@dataclass(frozen=True)
class Map:
    """``target = value`` at every point of the target's axes; ``value`` may read the target at the same point."""

    target: Buffer
    value: Expr

    def __str__(self) -> str:
        return f"map {self.target.value} = {self.value}"


@dataclass(frozen=True)
class Reduce:
    """``target = target ⊕ (⊕ over the tile of `over` of value)``; ``over`` isn't an axis of the target.

    Of a list (``cascade.model.LISTS``) the target holds the best pairs seen, the best first, along ``rank``: the last
    of its axes, whole on chip, which the value doesn't use.
    """

    target: Buffer
    combiner: str
    value: Expr
    over: Axis
    rank: Axis | None = None

    @property
    def space(self) -> tuple[Axis, ...]:
        """The axes that elements differ along, ``over`` last."""
        return (*(a for a in self.target.axes if a != self.rank), self.over)

    def __str__(self) -> str:
        return f"reduce {self.target.value} {self.combiner}= {self.value} over {self.over.name}"


@dataclass(frozen=True)
class Contract:
    """``target += Σ over the tile of `over` of left · right``: a matrix product on the tile.

    Both operands vary with ``over``; each axis of the target appears in at least one operand, and each
    operand has an axis of the target that the other lacks. Accumulates in the target's dtype.
    """

    target: Buffer
    left: Expr
    right: Expr
    over: Axis

    def __str__(self) -> str:
        return f"contract {self.target.value} += {self.left} · {self.right} over {self.over.name}"


@dataclass(frozen=True)
class Store:
    """``tensor[indices] = value`` for every point of ``axes`` in the current tile; ``tensor`` is in memory."""

    tensor: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    value: Expr

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.indices))
        return f"store {self.tensor.name}[{inner}] = {self.value}  for {', '.join(a.name for a in self.axes)}"


@dataclass(frozen=True)
class Stream:
    """Run ``body`` for each tile of ``axis`` in order, from ``start`` to ``stop``.

    Bounds are expressions over grid axes, each standing for the first point of the block's tile, and over elements
    in memory at such points: as conditions of a ``select``, or as positions.
    """

    axis: Axis
    tile: int
    body: tuple[Statement, ...]
    start: Expr
    stop: Expr

    def __str__(self) -> str:
        return f"stream {self.axis.name} from {self.start} to {self.stop} by {self.tile}"


Statement = Fill | Map | Reduce | Contract | Store | Stream


@dataclass(frozen=True)
class Tile:
    """A grid dimension: blocks of ``size`` consecutive points of ``axis``."""

    axis: Axis
    size: int

    @property
    def count(self) -> int:
        """Number of blocks along this axis; of a symbolic one the most there can be."""
        return -(-most(self.axis.extent) // self.size)

    def __str__(self) -> str:
        return f"{self.axis.name}:{self.size}"


@dataclass(frozen=True)
class Phase:
    """One parallel launch: a block for every point of the grid, then a barrier."""

    grid: tuple[Tile, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Schedule:
    """The choices the tuner makes for one program.

    Args:
        strategy: ``single-segment``, ``multi-segment``, ``resident`` or ``unfused``.
        tiles: tile size by axis name; an axis that isn't named has tile size 1 in the grid.
        segments: number of pieces of the shared axis that run in parallel; 1 unless multi-segment.
        lanes: name of the axis laid along vector lanes (CPU); empty lets the back end choose.
        options: further back-end choices, by name.
    """

    strategy: str
    tiles: tuple[tuple[str, int], ...] = ()
    segments: int = 1
    lanes: str = ""
    options: tuple[tuple[str, int], ...] = ()

    def tile(self, axis: Axis, default: int = 1) -> int:
        """Tile size along ``axis``, never more than its extent may be."""
        size = dict(self.tiles).get(axis.name, default)
        return size if is_symbolic(size) else min(size, max(most(axis.extent), 1))

    def as_dict(self) -> dict[str, object]:
        """JSON-ready form, as the report and ``tuning.lock`` keep it."""
        return {
            "strategy": self.strategy,
            "tiles": dict(self.tiles),
            "segments": self.segments,
            "lanes": self.lanes,
            **dict(self.options),
        }


@dataclass(frozen=True)
class Derived:
    """A dimension of a program alone, worked out on the call: results don't depend on it, the work's division does.

    Args:
        dim: its name and range.
        value: follows from other dimensions.
    """

    dim: Dim
    value: Expr

    def __str__(self) -> str:
        return f"{self.dim} = {self.value}"


@dataclass(frozen=True)
class TileProgram:
    """A kernel before code generation.

    Args:
        name: a safe identifier.
        inputs, outputs: tensors in memory, in calling order.
        workspaces: tensors in memory that live between phases only.
        phases: run one after another.
        schedule: the choices this program embodies.
        derived: open dimensions that the caller doesn't give.
        normal: those of ``inputs`` that hold no subnormal number.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspaces: tuple[Tensor, ...]
    phases: tuple[Phase, ...]
    schedule: Schedule = field(default_factory=lambda: Schedule("single-segment"))
    derived: tuple[Derived, ...] = ()
    normal: tuple[Tensor, ...] = ()

    def __str__(self) -> str:
        """One line for each declaration and statement, bodies indented: stable, for goldens, dumps and people."""
        lines = [f"program {self.name} [{self.schedule.strategy}]"]
        lines += [f"  input {tensor}" for tensor in self.inputs]
        lines += [f"  output {tensor}" for tensor in self.outputs]
        lines += [f"  workspace {tensor}" for tensor in self.workspaces]
        lines += [f"  size {item}" for item in self.derived]
        for number, phase in enumerate(self.phases):
            lines.append(f"  phase {number} grid({', '.join(map(str, phase.grid))})")
            lines += [f"    buffer {buffer}" for buffer in phase.buffers]
            lines += _lines(phase.body, 4)
        return "\n".join(lines)


def _lines(body: tuple[Statement, ...], indent: int) -> Iterator[str]:
    for statement in body:
        yield " " * indent + str(statement)
        if isinstance(statement, Stream):
            yield from _lines(statement.body, indent + 2)
