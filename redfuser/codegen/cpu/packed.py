"""Kernels that take constant weights packed instead of packing them on every call. Imports TVM: import it lazily."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax, tirx

from redfuser.codegen.backend import Placement
from redfuser.codegen.cpu.bytes.panels import Panels
from redfuser.codegen.cpu.bytes.products import packable
from redfuser.codegen.cpu.generate import generate
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.rewire import Replacement
from redfuser.contents import contents
from redfuser.targets import CpuTarget


class Packed:
    """Makes replacements of one module: a kernel for each set of arguments that are constant, a constant packed once.

    Args:
        target: what kernels are generated for.
    """

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.kernels: dict[str, tirx.PrimFunc] = {}
        self.constants: dict[tuple[relax.Constant, Panels], relax.Constant] = {}

    def replacement(self, placement: Placement) -> Replacement:
        """The kernel in its place; constants among its products' right factors are packed now."""
        kernel, inputs = placement.kernel, list(placement.inputs)
        program = kernel.program
        usable = packable(program) if Machine.of(self.target).multiplies_bytes else {}
        known = {
            tensor: place
            for place, (tensor, value) in enumerate(zip(program.inputs, inputs, strict=True))
            if tensor in usable and isinstance(value, relax.Constant)
        }
        if not known:
            return Replacement(kernel.code, program.name, placement.inputs, placement.outputs)
        for tensor, place in known.items():
            inputs[place] = self._packed(inputs[place], usable[tensor])
        name = "_".join([program.name, "packed", *map(str, known.values())])
        if name not in self.kernels:
            self.kernels[name] = generate(replace(program, name=name), self.target, known.keys())
        return Replacement(self.kernels[name], name, tuple(inputs), placement.outputs)

    def _packed(self, constant: relax.Constant, panels: Panels) -> relax.Constant:
        if (constant, panels) not in self.constants:
            self.constants[constant, panels] = relax.const(panels.pack(contents(constant)))
        return self.constants[constant, panels]
