"""Matrix products that no cascade took, with what follows them, as tile programs. Imports TVM: import it lazily.

TVM's own schedules know tensor cores for half precision only, and don't overlap copies with products. A lone product is
a cascade of one reduction, so it goes the way of all cascades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax, tirx

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.assemble import Assembler
from redfuser.cascade.assembly.frontier import NotSeparable
from redfuser.cascade.assembly.placement import NotPlaceable
from redfuser.cascade.canonical import Canonical, canonicalise
from redfuser.cascade.graph import Graph
from redfuser.cascade.reading.sizes import dims_of_module, extent_of, sizes_of_call
from redfuser.cascade.reading.tir import NotExtractable, extract_primfunc
from redfuser.codegen.backend import Kernel, MakeProduct
from redfuser.codegen.gpu.open_schedule import sizes_to_suit
from redfuser.codegen.gpu.product_schedule import product_shape
from redfuser.codegen.gpu.remainder.flattening import flatten_rows
from redfuser.expr import Tensor
from redfuser.expr.binding import at_sizes
from redfuser.extents import Extent

#: Types whose products tensor cores add up in float32, and those that they add up, or that are added to, in int32.
FLOATS = frozenset({"float16", "bfloat16", "float32"})
INTEGERS = frozenset({"int8", "uint8", "int32"})


@dataclass(frozen=True)
class Product:
    """A kernel for a PrimFunc of one matrix product.

    Args:
        kernel: for the cascade, whose tensors may have fewer dimensions.
        order: for each of the kernel's inputs, the place of its tensor among the PrimFunc's parameters.
        inputs, outputs: the kernel's tensors in the shapes that the model has them in.
    """

    kernel: Kernel
    order: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class ProductCall:
    """A place in ``main`` that a product takes: what it reads, and the variable it defines."""

    product: Product
    inputs: tuple[relax.Expr, ...]
    output: relax.Var


def find_products(module: tvm.IRModule, make: MakeProduct) -> tuple[ProductCall, ...]:
    """Every call of a PrimFunc that is one matrix product and for which a kernel is made.

    Args:
        module: element-wise operations are fused already.
    """
    made: dict[tuple[Any, ...], Product | None] = {}
    dims = dims_of_module(module)
    calls = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_tir"):
                continue
            function = module[value.args[0]]
            sizes = sizes_of_call(function, value, binding.var.struct_info, dims)
            key = value.args[0].name_hint, *sizes.values()
            if key not in made:
                number = sum(product is not None for product in made.values())
                made[key] = _make(function, f"product_{number}", make, sizes)
            product = made[key]
            if product is not None:
                arguments = value.args[1].fields
                calls.append(ProductCall(product, tuple(arguments[k] for k in product.order), binding.var))
    return tuple(calls)


def _make(function: tirx.PrimFunc, name: str, make: MakeProduct, sizes: Mapping[tirx.Var, Extent]) -> Product | None:
    product = read_product(function, sizes)
    kernel = make(product.cascade, name) if product is not None else None
    if product is None or kernel is None:
        return None
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    names = [str(buffer.name) for buffer in buffers]
    order = tuple(map(names.index, product.inputs))
    shapes = [tuple(extent_of(extent, sizes) for extent in buffer.shape) for buffer in buffers]
    inputs = tuple(replace(t, shape=shapes[k]) for t, k in zip(kernel.program.inputs, order, strict=True))
    return Product(kernel, order, inputs, (replace(kernel.program.outputs[0], shape=shapes[-1]),))


def read_product(function: tirx.PrimFunc, sizes: Mapping[tirx.Var, Extent] | None = None) -> Canonical | None:
    """The cascade of one matrix product that a PrimFunc is, epilogue included; ``None`` if it is anything else.

    Axes of its rows that lie one after another are one.

    Args:
        sizes: what its variables for sizes stand for.
    """
    try:
        fragment = extract_primfunc(function, sizes)
    except NotExtractable:
        return None
    *inputs, output = fragment.parameters
    names = [tensor.name for tensor in fragment.parameters]
    folds = [d for d in fragment.definitions if d.reduced]
    if len(folds) != 1 or len(set(names)) < len(names):
        return None
    known = FLOATS | INTEGERS if folds[0].tensor.dtype == "int32" else FLOATS
    if any(tensor.dtype not in known for tensor in (*inputs, output)):
        return None
    definitions = {definition.tensor.name: definition for definition in fragment.definitions}
    graph = Graph(definitions, frozenset(names), frozenset(), frozenset({output.name}), {}, {"": ()})
    try:
        cascade = Assembler(graph, Ancestry(graph), [folds[0].tensor.name]).build("product")
    except (NotPlaceable, NotSeparable):
        return None
    if len(cascade.reductions) != 1 or cascade.producers or cascade.epilogues:
        return None
    cascade = flatten_rows(cascade)
    shape = product_shape(at_sizes(cascade, sizes_to_suit(cascade)))
    whole = [o.tensor.name for o in cascade.outputs] == [output.name]
    return canonicalise(cascade) if shape is not None and whole else None
