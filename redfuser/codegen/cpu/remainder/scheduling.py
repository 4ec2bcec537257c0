"""Schedules every PrimFunc that ``main`` calls. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
import tvm_ffi
from tvm import relax

from redfuser.cascade.reading.sizes import dims_of_module, sizes_of_call, variables_of_module
from redfuser.codegen.cpu.remainder.function import Scheduled, builds, schedule_function
from redfuser.codegen.cpu.remainder.products.codes.coding import Coding
from redfuser.codegen.rewire import with_bindings
from redfuser.contents import contents
from redfuser.extents import Extent
from redfuser.targets import CpuTarget


class Remainder:
    """A module in which element-wise operations are fused already, and how its functions are computed.

    Args:
        module: ``main`` calls PrimFuncs, those of cascades scheduled already.
        target: the processor.

    Attributes:
        kinds: name of each function of the last :meth:`schedule` -> see :class:`Scheduled`.
    """

    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        self.module = module
        self.target = target
        self.kinds: dict[str, str] = {}
        self._variants: dict[int, list[_Variant]] = {}
        self._packed: dict[tuple, relax.Constant] = {}
        self._codings: dict[tuple, Coding | None] = {}
        self._dims = dims_of_module(module)
        self._variables = variables_of_module(module) if self._dims else {}

    def schedule(self) -> tvm.IRModule:
        """The module with every function scheduled. Functions that are equal but for names become one."""
        self.kinds = {}
        self._names: dict[int, tvm.ir.GlobalVar] = {}
        self._builder = relax.BlockBuilder(tvm.IRModule(attrs=self.module.attrs))
        main = self.module["main"]
        bindings = [self._binding(b) for block in main.body.blocks for b in block.bindings]
        module = self._builder.get()
        module.update_func(tvm.ir.GlobalVar("main"), main)
        return with_bindings(module, bindings)

    def withdraw(self, llvm: tvm.target.Target) -> bool:
        """Take back what doesn't compile: such functions are left as they are. False if all compile."""
        refused = [v for variants in self._variants.values() for v in variants if v.is_ours]
        refused = [v for v in refused if not builds(v.scheduled.function, llvm)]
        for variant in refused:
            variant.scheduled = Scheduled(variant.original, "default")
        return bool(refused)

    def _binding(self, binding: relax.Binding) -> relax.Binding:
        call = binding.value
        if not isinstance(call, relax.Call) or call.op != tvm.ir.Op.get("relax.call_tir"):
            return binding
        arguments = list(call.args[1].fields)
        known = tuple(isinstance(argument, relax.Constant) for argument in arguments)
        function = self.module[call.args[0]]
        sizes = sizes_of_call(function, call, binding.var.struct_info, self._dims)
        small = tuple(map(_is_small, arguments))
        variant = self._variant(function.without_attr("global_symbol"), known, sizes, small)
        coding = self._coding(arguments, variant.scheduled)
        if coding is not None:
            variant = self._variant(variant.original, known, sizes, small, coding)
        if id(variant) not in self._names:
            name = self._builder.add_func(variant.scheduled.function, call.args[0].name_hint)
            self._names[id(variant)] = name
            self.kinds[name.name_hint] = variant.scheduled.kind
        factor = variant.scheduled.factor
        if factor is not None:
            arguments[factor] = self._pack(arguments[factor], variant.scheduled)
        scalars = list(call.args[2:])
        if variant.scheduled.dims is not None:
            dims = [self._variables[name] for name in variant.scheduled.dims]
            scalars = [relax.ShapeExpr(dims)] if dims else []
        inputs = [self._names[id(variant)], relax.Tuple(arguments), *scalars]
        return relax.VarBinding(binding.var, relax.Call(call.op, inputs, call.attrs, call.sinfo_args))

    def _variant(
        self,
        function: tvm.tirx.PrimFunc,
        known: tuple[bool, ...],
        sizes: Mapping[tvm.tirx.Var, Extent],
        small: tuple[bool, ...],
        coding: Coding | None = None,
    ) -> _Variant:
        """The function with these inputs known and sizes in terms of the module's dimensions, scheduled once."""
        similar = self._variants.setdefault(tvm_ffi.structural_hash(function), [])
        given = (known, tuple(sizes.values()), small, coding)
        for variant in similar:
            if variant.given == given and tvm_ffi.structural_equal(function, variant.original):
                return variant
        scheduled = schedule_function(function, known, self.target, sizes, coding, small)
        similar.append(_Variant(function, given, scheduled))
        return similar[-1]

    def _coding(self, arguments: Sequence[relax.Expr], scheduled: Scheduled) -> Coding | None:
        """How the argument that is passed packed can be coded, sought once for each constant."""
        if scheduled.factor is None:
            return None
        key = (arguments[scheduled.factor], scheduled.packing)
        if key not in self._codings:
            self._codings[key] = scheduled.coding(contents(arguments[scheduled.factor]))
        return self._codings[key]

    def _pack(self, constant: relax.Constant, scheduled: Scheduled) -> relax.Constant:
        key = (constant, scheduled.packing)
        if key not in self._packed:
            self._packed[key] = relax.const(scheduled.pack(contents(constant)))
        return self._packed[key]


def _is_small(argument: relax.Expr) -> bool:
    """Whether an argument is a weight of whole numbers that a byte with a sign holds."""
    if not isinstance(argument, relax.Constant) or str(argument.struct_info.dtype) not in ("int8", "int32"):
        return False
    array = contents(argument)
    return array.ndim > 1 and bool((array.astype("int8") == array).all())


class _Variant:
    """A function for calls in which the same inputs are known and the sizes are the same."""

    def __init__(self, original: tvm.tirx.PrimFunc, given: tuple[object, ...], scheduled: Scheduled) -> None:
        self.original = original
        self.given = given
        self.scheduled = scheduled

    @property
    def is_ours(self) -> bool:
        """Whether we wrote what is compiled."""
        return self.scheduled.kind not in ("default", "fused")
