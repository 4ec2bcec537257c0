"""A legalised Relax module as a graph of definitions: with ``tir.py`` the only file of the stage that imports TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from redfuser.cascade.assembly.shifts import take_maximum_once
from redfuser.cascade.assembly.tails import split_tails
from redfuser.cascade.graph import Definition, Graph
from redfuser.cascade.reading.bands import Band, find_band
from redfuser.cascade.reading.sizes import dims_of_module, extent_of, sizes_of_call, variables_of_module
from redfuser.cascade.reading.tir import Fragment, NotExtractable, extract_primfunc
from redfuser.contents import contents
from redfuser.expr import Const, Expr, Load, Tensor, axis, load, number, transform
from redfuser.extents import size_of

if TYPE_CHECKING:
    import tvm


def extract_graph(module: tvm.IRModule, provenance: Mapping[str, tuple[str, ...]]) -> tuple[Graph, dict[str, Any]]:
    """Read ``main`` of a legalised Relax module.

    Args:
        module: one dataflow block of ``call_tir`` bindings; names of bound variables are unique.
        provenance: bound variable -> names of ONNX nodes.

    Returns:
        The graph, and the Relax expression behind each stored tensor's name.
    """
    return _GraphReader(module, provenance).read()


class _GraphReader:
    def __init__(self, module: tvm.IRModule, provenance: Mapping[str, tuple[str, ...]]) -> None:
        self.module = module
        self.provenance = provenance
        self.dims = dims_of_module(module)
        self.variables = variables_of_module(module) if self.dims else {}
        self.values: dict[str, Any] = {}
        self.definitions: dict[str, Definition] = {}
        self.outputs: set[str] = set()
        self.inputs_of: dict[str, tuple[str, ...]] = {}
        self.fragments: dict[Any, Fragment | None] = {}
        self.constants: dict[Any, str] = {}
        self.bands: dict[str, Band | None] = {}
        self.items: dict[str, tuple[Tensor, ...]] = {}

    def read(self) -> tuple[Graph, dict[str, Any]]:
        from tvm import relax

        main = self.module["main"]
        for parameter in main.params:
            self.values[parameter.name_hint] = parameter
        for block in main.body.blocks:
            for binding in block.bindings:
                self._binding(binding)
        result = main.body.body
        for field in result.fields if isinstance(result, relax.Tuple) else [result]:
            self.outputs.add(self._name(field))
        graph = Graph(
            self.definitions,
            frozenset(self.values),
            frozenset(self.constants.values()),
            frozenset(self.outputs),
            self.provenance,
            self.inputs_of,
        )
        return split_tails(take_maximum_once(graph)), self.values

    def _name(self, value: Any) -> str:
        from tvm import relax

        if isinstance(value, relax.Constant):
            if value not in self.constants:
                self.constants[value] = f"constant_{len(self.constants)}"
                self.values[self.constants[value]] = value
            return self.constants[value]
        return str(value.name_hint)

    def _binding(self, binding: Any) -> None:
        from tvm import relax, tirx

        name, value = str(binding.var.name_hint), binding.value
        self.values[name] = binding.var
        is_tir = isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"
        function = self.module[value.args[0]] if is_tir else None
        if isinstance(function, tirx.PrimFunc):
            arguments = [self._name(a) for a in value.args[1].fields]
            if self._instantiate(name, self._fragment(value, binding.var.struct_info), arguments):
                self.inputs_of[name] = tuple(arguments)
                return
        elif isinstance(value, relax.Var):
            known = {variable: size_of(self.dims[name]) for name, variable in self.variables.items()}
            shape = tuple(extent_of(s, known) for s in value.struct_info.shape)
            self._alias(name, Tensor(self._name(value), shape, str(value.struct_info.dtype)))
            return
        elif isinstance(value, relax.TupleGetItem) and self._name(value.tuple_value) in self.items:
            self._alias(name, self.items[self._name(value.tuple_value)][int(value.index)])
            return
        read: list[str] = []

        def visit(node: Any) -> None:
            if isinstance(node, relax.Var | relax.Constant) and self._name(node) not in read:
                read.append(self._name(node))

        relax.analysis.post_order_visit(value, visit)
        self.inputs_of[name] = tuple(read)
        self.outputs |= set(read)

    def _alias(self, name: str, source: Tensor) -> None:
        axes = tuple(axis(f"i.{k}", extent) for k, extent in enumerate(source.shape))
        target = Tensor(name, source.shape, source.dtype)
        self.definitions[name] = Definition(target, axes, (), "", load(source, *axes), name)
        self.inputs_of[name] = (source.name,)

    def _fragment(self, call: Any, result: Any) -> Fragment | None:
        function = self.module[call.args[0]]
        sizes = sizes_of_call(function, call, result, self.dims)
        key = call.args[0], tuple(sizes.items())
        if key not in self.fragments:
            try:
                self.fragments[key] = extract_primfunc(function, sizes)
            except NotExtractable:
                self.fragments[key] = None
        return self.fragments[key]

    def _instantiate(self, binding: str, fragment: Fragment | None, arguments: list[str]) -> bool:
        """Add a fragment's definitions under names of this binding; False leaves the binding opaque."""
        if fragment is None or len(fragment.parameters) <= len(arguments):
            return False
        inputs, outputs = fragment.parameters[: len(arguments)], fragment.parameters[len(arguments) :]
        renamed: dict[Tensor, Tensor] = {}
        scalars: dict[Tensor, Const] = {}
        bands: dict[Tensor, Band] = {}
        for parameter, argument in zip(inputs, arguments, strict=True):
            constant = self._scalar(argument)
            if constant is not None and all(s == 1 for s in parameter.shape):
                scalars[parameter] = constant
            elif (band := self._band(argument)) is not None and len(parameter.shape) >= 2:
                bands[parameter] = band
            renamed[parameter] = Tensor(argument, parameter.shape, parameter.dtype)
        for definition in fragment.definitions:
            local = definition.tensor
            name = binding if (local,) == outputs else f"{binding}.{local.name}"
            renamed[local] = Tensor(name, local.shape, local.dtype)
        if len(outputs) > 1:
            self.items[binding] = tuple(renamed[output] for output in outputs)
        for definition in fragment.definitions:
            # A matrix product with a banded weight stays a product with a weight.
            body = _rename(definition.body, renamed, scalars, {} if definition.reduced else bands)
            tensor = renamed[definition.tensor]
            self.definitions[tensor.name] = replace(definition, tensor=tensor, body=body, binding=binding)
        return True

    def _scalar(self, name: str) -> Const | None:
        from tvm import relax

        value = self.values.get(name)
        if not isinstance(value, relax.Constant) or prod(value.data.shape) != 1:
            return None
        item = contents(value).reshape(-1)[0].item()
        dtype = str(value.struct_info.dtype)
        return Const("bool", bool(item)) if dtype == "bool" else number(item, dtype)

    def _band(self, name: str) -> Band | None:
        """The band that a constant is, if it is one."""
        from tvm import relax

        value = self.values.get(name)
        if not isinstance(value, relax.Constant):
            return None
        if name not in self.bands:
            self.bands[name] = find_band(contents(value), str(value.struct_info.dtype))
        return self.bands[name]


def _rename(
    body: Expr, tensors: Mapping[Tensor, Tensor], scalars: Mapping[Tensor, Const], bands: Mapping[Tensor, Band]
) -> Expr:
    def rule(node: Expr) -> Expr:
        if not isinstance(node, Load):
            return node
        if node.tensor in bands:
            return bands[node.tensor].at(node.indices)
        return scalars.get(node.tensor) or Load(node.dtype, tensors[node.tensor], node.indices)

    return transform(body, rule)
