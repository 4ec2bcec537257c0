"""A PrimFunc being written over flat memory. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tvm import tirx

from redfuser.codegen.cpu.lowering.phases import PhaseWriter
from redfuser.codegen.cpu.lowering.region import Region, Span
from redfuser.codegen.cpu.lowering.uncached import uncached
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.flat import flat
from redfuser.codegen.cpu.values.access import Access
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.codegen.cpu.values.expressions import Translator
from redfuser.codegen.cpu.values.types import in_memory
from redfuser.expr import Axis, Expr, Tensor, index
from redfuser.extents import Dim, is_symbolic, most
from redfuser.tile.ir import Phase


class Kernel:
    """Parameters and workspaces of a PrimFunc, and what writes its body.

    Args:
        machine: decides between instructions.
        parameters: inputs, then outputs.
        workspaces: live in memory while the function runs.
        dims: symbolic dimensions, parameters after the tensors.

    Attributes:
        arrays: flat tensor -> its storage, for every parameter and workspace.
    """

    def __init__(
        self,
        machine: Machine,
        parameters: Sequence[Tensor],
        workspaces: Sequence[Tensor] = (),
        dims: Sequence[Dim] = (),
    ) -> None:
        self.machine = machine
        self.dims = tuple(dims)
        largest = max(most(tensor.size) for tensor in (*parameters, *workspaces))
        self.builder = Builder("int32" if largest < 1 << 31 else "int64", self.dims)
        self.arrays: dict[Tensor, tirx.Buffer] = {}
        self.translator = Translator(self.builder, machine, Access(self.builder, {}, self.arrays))
        self._parameters: list[tirx.Buffer] = []
        for tensor in parameters:
            name = self.builder.unique(tensor.name)
            whole = tirx.decl_buffer(self.builder.shape(tensor.shape), tensor.dtype, name)
            size = tensor.size if is_symbolic(tensor.size) else max(tensor.size, 1)
            stored = in_memory(tensor.dtype)
            view = tirx.decl_buffer(self.builder.shape([size]), stored, f"{name}_flat", data=whole.data)
            self.builder.emit(tirx.DeclBuffer(view))
            self.arrays[flat(tensor)] = view
            self._parameters.append(whole)
        for tensor in workspaces:
            self.arrays[flat(tensor)] = self.builder.allocate(tensor.name, tensor.size, tensor.dtype)

    def allocate(self, name: str, size: int, dtype: str) -> Tensor:
        """A flat array of the current task."""
        tensor = Tensor(self.builder.unique(name), (size,), dtype)
        self.arrays[tensor] = self.builder.allocate(name, size, dtype)
        return tensor

    def write_phases(self, phases: Sequence[Phase], outputs: Collection[Tensor] = ()) -> None:
        """Write phases of a tile program over flat tensors.

        Args:
            outputs: flat tensors that nothing reads which is written besides.
        """
        for phase in phases:
            past = uncached(phase, phases, outputs, self.machine)
            PhaseWriter(phase, "", self.builder, self.machine, self.arrays, uncached=past).write()

    def finish(self) -> tirx.PrimFunc:
        """The PrimFunc, scheduled."""
        attributes = {"s_tir": True, "tirx.noalias": True, "tirx.is_scheduled": True}
        arguments = [*self._parameters, *self.builder.parameters]
        return tirx.PrimFunc(arguments, self.builder.body()).with_attrs(attributes)


def point(places: Mapping[Axis, Expr]) -> Region:
    """The region of one point."""
    return Region({axis: Span(index(0), where, 1) for axis, where in places.items()})
