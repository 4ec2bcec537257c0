"""From a tile program to TileLang scripts, one kernel a phase."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.geometry import Geometry, Span
from redfuser.codegen.gpu.emission.grid import VARIABLES, Launch, launch
from redfuser.codegen.gpu.emission.layouts import copy_torn_rows
from redfuser.codegen.gpu.emission.open_sizes import Sizes, require_tiles
from redfuser.codegen.gpu.emission.pairs import helpers, pairs_as_integers, selects
from redfuser.codegen.gpu.emission.precision import HALVES
from redfuser.codegen.gpu.emission.prepare import prepare
from redfuser.codegen.gpu.emission.products import BY_COLUMNS
from redfuser.codegen.gpu.emission.script import Lines, Names, Script
from redfuser.codegen.gpu.emission.statements import write_body
from redfuser.codegen.gpu.emission.storage import in_shared
from redfuser.expr import Expr, Tensor, loads
from redfuser.expr.binding import dims_in
from redfuser.extents import divide, is_symbolic
from redfuser.options import Fp32
from redfuser.tile.ir import Phase, Reduce, Store, Tile, TileProgram
from redfuser.tile.walk import statements
from redfuser.tile.witnesses import witnessed

#: Of a block, unless the schedule says otherwise.
THREADS = 128


def emit(program: TileProgram, fp32: Fp32 = "tf32", groups: bool = False) -> tuple[Script, ...]:
    """Scripts in launch order; their parameters are the tensors that each phase touches.

    Args:
        fp32: how products of float32 are computed; by TF32 none of which elements are selected.
        groups: whether the target multiplies matrices by groups of four warps.

    Raises:
        Refused: the program can't be expressed, with the reason.
    """
    if fp32 == "tf32" and selects(program):
        fp32 = "3xtf32"
    program = pairs_as_integers(program)
    several = len(program.phases) > 1
    names = (f"{program.name}_{number}" if several else program.name for number in range(len(program.phases)))
    phases = [_laid_out(phase, fp32) for phase in program.phases]
    passing = witnessed(phases, program.workspaces)
    return tuple(_Kernel(program, *each, passing, fp32, groups).script() for each in zip(phases, names, strict=True))


def _laid_out(phase: Phase, fp32: Fp32) -> Phase:
    """The phase as it is written, each value where threads find it."""
    prepared = prepare(phase)
    require_tiles(prepared)
    return copy_torn_rows(prepared, in_shared(prepared), fp32)


class _Kernel:
    def __init__(
        self, program: TileProgram, phase: Phase, name: str, passing: Collection[Reduce], fp32: Fp32, groups: bool
    ) -> None:
        self.program, self.phase, self.name, self.fp32, self.groups = program, phase, name, fp32, groups
        self.passing = passing
        self.options = dict(program.schedule.options)
        self.names = Names(*VARIABLES, name)
        self.tensors = _touched(program, phase)
        self.dims = {dim: self.names.new(dim.name) for dim in dims_in((phase, self.tensors))}
        self.memory = {tensor: self.names.new(tensor.name) for tensor in self.tensors}
        self.threads = self.options.get("threads", THREADS)
        self.sizes = Sizes(self.dims)
        self.geometry = Geometry(phase, self.threads // 32, bool(self.options.get(BY_COLUMNS)), self.sizes)

    def script(self) -> Script:
        half = any(tensor.dtype in HALVES for tensor in (*self.program.inputs, *self.program.outputs))
        block = Block(
            self.phase,
            self.geometry,
            self.names,
            self.memory,
            self.options,
            half,
            self.fp32,
            self.groups,
            self.passing,
        )
        blocks = launch(self.phase.grid, self.sizes)
        for tile, number in zip(self.phase.grid, blocks.numbers, strict=True):
            self._place(block, tile, number)
        write_body(block, self.phase.body)
        text = f"{self._head(blocks, block)}{block.lines}"
        registers = block.sizes["fragment"] // (4 * self.threads)
        shared = block.sizes["shared"]
        names, products = tuple(self.memory.values()), tuple(sorted(block.multiplied))
        dims = {called: dim for dim, called in self.dims.items()}
        return Script(self.name, text, self.tensors, names, shared, registers, half, products, dims)

    def _head(self, blocks: Launch, block: Block) -> Lines:
        """Everything before the body."""
        head = Lines()
        head.add(f'"""{self.name} [{self.program.schedule.strategy}]"""', "", "import tilelang.language as T", "", "")
        for helper in helpers(str(block.lines)):
            head.add(*helper.splitlines(), "", "")
        if self.dims:
            head.add(*(f'{called} = T.dynamic("{called}")' for called in self.dims.values()), "", "")
        head.add("@T.prim_func", f"def {self.name}(")
        if self.dims:  # Its shape gives each of them, before tensors' shapes that may have them in products only.
            head.add(f'    {self.names.new("sizes")}: T.Tensor(({", ".join(self.dims.values())},), "int8"),')
        head.add(*(f"    {n}: T.Tensor({self._shape(t)}, {block.type(n, t.dtype)})," for t, n in self.memory.items()))
        head.add("):")
        variables = VARIABLES[: len(blocks.extents)]
        bound = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
        launched = ", ".join(map(str, blocks.extents))
        with head.indented(f"    with T.Kernel({launched}, threads={self.threads}) as {bound}:"):
            head.add(*(f"    {declaration}" for declaration in block.declared()))
        return head

    def _shape(self, tensor: Tensor) -> str:
        inner = ", ".join(map(self.sizes.text, tensor.shape or (1,)))
        return f"({inner},)" if len(tensor.shape) < 2 else f"({inner})"

    def _place(self, block: Block, tile: Tile, number: str) -> None:
        """Name the tile's position along its axis."""
        if tile.count == 1 and not is_symbolic(tile.axis.extent):
            if tile.size == 1:
                self.geometry.grid[tile.axis] = Span(tile.axis, 1, 1, "", "1", False)
            return
        size = tile.size
        name = self.names.new(tile.axis.name if size == 1 else f"{tile.axis.name}_start")
        compound = f"({number})" if " " in number else number
        block.lines.add(f"{name} = {number if size == 1 else f'{compound} * {size}'}")
        exact, stop = divide(tile.axis.extent, size) is not None, self.sizes.text(tile.axis.extent)
        self.geometry.grid[tile.axis] = self.geometry.tiled(tile.axis, size, name, stop, exact)


def _touched(program: TileProgram, phase: Phase) -> tuple[Tensor, ...]:
    """Tensors in memory that a phase reads or writes, in calling order."""
    used = set(_memory(phase))
    return tuple(t for t in (*program.inputs, *program.outputs, *program.workspaces) if t in used)


def _memory(phase: Phase) -> Iterator[Tensor]:
    for statement in statements(phase.body):
        for name in ("value", "left", "right", "start", "stop"):
            part = getattr(statement, name, None)
            if isinstance(part, Expr):
                yield from (node.tensor for node in loads(part))
        if isinstance(statement, Store):
            yield statement.tensor
