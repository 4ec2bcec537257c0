"""A block being written: names, buffers, reads under guards, loops over a tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod

from redfuser.codegen.gpu.emission.expressions import Writer, constant
from redfuser.codegen.gpu.emission.geometry import Geometry, Span
from redfuser.codegen.gpu.emission.integers import buffer_ranges
from redfuser.codegen.gpu.emission.padding import Padding
from redfuser.codegen.gpu.emission.precision import strip_casts
from redfuser.codegen.gpu.emission.script import Lines, Names
from redfuser.codegen.gpu.emission.storage import Storage, plan_storage
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, cast, index, loads, substitute
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import most
from redfuser.indexing import linear, simplify
from redfuser.options import Fp32
from redfuser.tile.ir import Buffer, Phase, Reduce
from redfuser.tile.walk import statements


class Block:
    """What the statements of a phase share while they are written.

    Args:
        memory: names of the tensors in memory.
        options: of the schedule.
        fast: see :class:`Writer`.
        fp32: how products of float32 are computed.
        groups: whether the target has instructions for groups of four warps.
        passing: extrema that may pass over NaNs.

    Attributes:
        declarations: of buffers: what stands for the type is left open.
        shared: names of those in shared memory.
        sizes: bytes declared in each scope.
        lines: the body.
        padding: what buffers hold outside their axes.
        ranges: of buffers of integers, where known.
        probabilities: buffers whose values lie between 0 and 1.
        bounds: writes bounds of streams, in which an axis is the first point of its tile.
        rounded: types to which a buffer is rounded just before its matrix product.
        copied: what tensor a shared buffer that one statement reads is a copy of, by its name in the script.
        uses: in how many statements a tensor is read.
        tf32: names of what is declared as TF32.
        multiplied: what matrix products are computed in: a type, or how those of float32 are.
    """

    def __init__(
        self,
        phase: Phase,
        geometry: Geometry,
        names: Names,
        memory: Mapping[Tensor, str],
        options: Mapping[str, int],
        fast: bool,
        fp32: Fp32,
        groups: bool = False,
        passing: Collection[Reduce] = (),
    ) -> None:
        self.passing = passing
        self.geometry, self.names, self.memory, self.options = geometry, names, memory, options
        self.fp32, self.groups = fp32, groups
        self.copied: dict[str, Tensor] = {}
        self.uses = _uses(phase)
        self.tf32: set[str] = set()
        self.multiplied: set[str] = set()
        self.declarations: dict[str, tuple[str, str]] = {}
        self.shared: set[str] = set()
        self.sizes = {"fragment": 0, "shared": 0}
        self.lines = Lines(depth=2)
        self.padding = Padding(phase.buffers)
        self.plan = plan_storage(phase, fp32)
        self.ranges = buffer_ranges(phase)
        self.buffers = {buffer.tensor: buffer for buffer in phase.buffers}
        self.probabilities: set[Tensor] = set()
        self.rounded: dict[Tensor, str] = {}
        self.expressions = Writer(self._point, self._read, fast, geometry.sizes)
        self.bounds = Writer(lambda axis: geometry.span(axis).origin or "0", self._read_at_block, fast, geometry.sizes)
        self._storage: dict[Tensor, Storage] = {}
        self._variables: dict[Axis, str] = {}
        self._assumed: list[set[Axis]] = []

    def text(self, value: Expr, dtype: str = "") -> str:
        """Text of a value, in another type if that is given."""
        if dtype:
            bare = strip_casts(value)
            value = bare if bare.dtype == dtype else cast(value, dtype)
        return self.expressions.text(value)

    def variable(self, axis: Axis) -> str:
        """Loop variable of an axis inside the tile."""
        if axis not in self._variables:
            self._variables[axis] = self.names.new(axis.name)
        return self._variables[axis]

    def variables(self, spans: Sequence[Span]) -> str:
        """Loop variables of several, separated by commas; an index of a single number for none."""
        return ", ".join(self.variable(span.axis) for span in spans) or "0"

    def guard(self, spans: Sequence[Span]) -> str:
        """Text of the condition that a point is real; empty where it always is, or was tested around this."""
        assumed = set().union(*self._assumed)
        doubtful = [span for span in spans if span.ragged and span.axis not in assumed]
        tests = [f"{span.point(self.variable(span.axis))} < {span.stop}" for span in doubtful]
        result = ""
        for test in tests:
            result = f"T.And({result}, {test})" if result else test
        return result

    def inside(self, spans: Sequence[Span], value: Expr, outside: float | int | bool, dtype: str = "") -> str:
        """A value at real points, a constant elsewhere."""
        guard = self.guard(spans)
        if not guard:
            return self.text(value, dtype)
        self._assumed.append({span.axis for span in spans})
        text = self.text(value, dtype)
        self._assumed.pop()
        return f"T.if_then_else({guard}, {text}, {constant(outside, dtype or value.dtype)})"

    def first_point(self, position: Expr, span: Span) -> str:
        """Text of an index at the first point of a tile."""
        if position == span.axis:
            return span.origin or "0"
        rest = self.text(linear(substitute(position, {span.axis: index(0)})).expr())
        return f"{rest} + {span.origin}" if span.origin else rest

    def parallel(self, spans: Sequence[Span], line: str, condition: str = "") -> None:
        """``line`` for every element of ``spans`` that meets the condition."""
        variables = self.variables(spans) if spans else "_"
        extents = ", ".join(str(span.extent) for span in spans) or "1"
        with self.lines.indented(f"for {variables} in T.Parallel({extents}):"):
            if condition:
                with self.lines.indented(f"if {condition}:"):
                    self.lines.add(line)
            else:
                self.lines.add(line)

    def declare(self, name: str, scope: str, shape: Sequence[int], dtype: str) -> str:
        """Allocate a buffer at the head of the kernel; gives its name."""
        unique = self.names.new(name)
        extents = ", ".join(map(str, shape or [1])) + ("," if len(shape) < 2 else "")
        self.sizes[scope] += prod(shape) * numpy_dtype(dtype).itemsize
        if scope == "shared":
            self.shared.add(unique)
        self.declarations[unique] = f"T.alloc_{scope}(({extents}), {{}})", dtype
        return unique

    def declared(self) -> list[str]:
        """The declarations, for the head of the kernel."""
        return [f"{name} = {form.format(self.type(name, dtype))}" for name, (form, dtype) in self.declarations.items()]

    def type(self, name: str, dtype: str) -> str:
        """Text of the type that a buffer or a tensor is declared with."""
        return "T.tfloat32" if name in self.tf32 else f'"{dtype}"'

    def stored(self, buffer: Buffer) -> Storage:
        """Where a buffer is kept; declared on first use."""
        if buffer.tensor not in self._storage:
            plan = self.plan[buffer.tensor]
            extents = {a: self.geometry.extent(a, n) for a, n in zip(buffer.axes, buffer.tensor.shape, strict=True)}
            axes = tuple(axis for axis, extent in extents.items() if extent > 1)
            name = self.declare(buffer.tensor.name, plan.scope, [extents[a] for a in axes], plan.dtype)
            self._storage[buffer.tensor] = Storage(name, plan.scope, plan.dtype, axes)
        return self._storage[buffer.tensor]

    def element(self, buffer: Buffer) -> str:
        """Text of a buffer's element at the current point."""
        kept = self.stored(buffer)
        return f"{kept.name}[{', '.join(self._position(buffer, axis) for axis in kept.axes) or '0'}]"

    def _position(self, buffer: Buffer, axis: Axis) -> str:
        span = self.geometry.span(axis)
        covered = dict(zip(buffer.axes, buffer.tensor.shape, strict=True))[axis]
        return span.point(self.variable(axis)) if most(covered) > span.points else self.variable(axis)

    def _point(self, axis: Axis) -> str:
        return self.geometry.span(axis).point(self.variable(axis))

    def _read(self, node: Load) -> str:
        if node.tensor in self.buffers:
            return self.element(self.buffers[node.tensor])
        spans = self.geometry.wide(sorted(axes_of(node), key=lambda a: a.name))
        guard = self.guard(spans)
        text = f"{self.memory[node.tensor]}[{self.indices(node.indices)}]"
        return f"T.if_then_else({guard}, {text}, {constant(0, node.dtype)})" if guard else text

    def _read_at_block(self, node: Load) -> str:
        """An element in memory at the block's first point."""
        positions = ", ".join(self.bounds.text(simplify(position)) for position in node.indices)
        return f"{self.memory[node.tensor]}[{positions or '0'}]"

    def indices(self, positions: Sequence[Expr]) -> str:
        """Text of the indices of an element in memory."""
        return ", ".join(self.text(simplify(position)) for position in positions) or "0"


def _uses(phase: Phase) -> Counter[Tensor]:
    """In how many statements each tensor is read."""
    found: Counter[Tensor] = Counter()
    for statement in statements(phase.body):
        parts = (getattr(statement, name, None) for name in ("value", "left", "right", "start", "stop"))
        found.update(node.tensor for part in parts if isinstance(part, Expr) for node in loads(part))
    return found
