"""Sizes in a lowered module, in the shared vocabulary. Imports TVM lazily.

``main`` carries the symbolic dimensions as an attribute. A PrimFunc has variables of its own for them; what these stand
for follows from the shapes and sizes that a call passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add, mul, sub
from typing import TYPE_CHECKING, Any

from redfuser.expr import Const, Expr, Op, Symbol
from redfuser.extents import Dim, Extent, size_of, terms_of
from redfuser.signature import DimRange

if TYPE_CHECKING:
    import tvm

#: Attribute of ``main``: name of each dimension's variable -> its least and its greatest value.
DIMS = "redfuser.dims"


class UnknownSize(Exception):
    """A size is no polynomial of the dimensions."""


def with_dims(module: tvm.IRModule, ranges: Mapping[str, DimRange]) -> tvm.IRModule:
    """The module with the dimensions noted on ``main``.

    Args:
        ranges: by the name of the variable.
    """
    if ranges:
        noted = {name: [bounds.low, bounds.high] for name, bounds in ranges.items()}
        module.update_func(module.get_global_var("main"), module["main"].with_attr(DIMS, noted))
    return module


def dims_of_module(module: tvm.IRModule) -> dict[str, Dim]:
    """The dimensions noted on ``main``, by name."""
    attributes = module["main"].attrs
    noted = attributes[DIMS] if attributes is not None and DIMS in attributes else {}
    return {str(name): Dim(str(name), int(low), int(high)) for name, (low, high) in noted.items()}


def variables_of_module(module: tvm.IRModule) -> dict[str, Any]:
    """The variable of each dimension, by name: those in the shapes of ``main``'s parameters."""
    from tvm import tirx

    shapes = [parameter.struct_info.shape for parameter in module["main"].params]
    return {extent.name: extent for shape in shapes for extent in shape if isinstance(extent, tirx.Var)}


def extent_of(value: Any, known: Mapping[Any, Extent]) -> Extent:
    """A ``tirx`` expression as a number of elements.

    Args:
        known: what variables stand for.

    Raises:
        UnknownSize: it isn't a polynomial of known variables.
    """
    from tvm import tirx

    if isinstance(value, tirx.IntImm | int):
        return int(value)
    if isinstance(value, tirx.Var) and value in known:
        return known[value]
    if isinstance(value, tirx.Cast):
        return extent_of(value.value, known)
    if isinstance(value, tirx.Add | tirx.Sub | tirx.Mul):
        a, b = extent_of(value.a, known), extent_of(value.b, known)
        return a + b if isinstance(value, tirx.Add) else a - b if isinstance(value, tirx.Sub) else a * b
    raise UnknownSize(f"the size {value}")


def size_expression(value: Extent, variables: Mapping[str, Any]) -> Any:
    """A number of elements as a ``tirx`` expression.

    Args:
        variables: of each dimension, by name.
    """
    terms = (reduce(mul, (variables[dim.name] for dim in monomial), c) for monomial, c in terms_of(value))
    return reduce(add, terms, 0)


def index_expression(value: Expr, variables: Mapping[str, Any]) -> Any:
    """Arithmetic of sizes as a ``tirx`` expression.

    Args:
        variables: of each dimension, by name.
    """
    from tvm import tirx

    if isinstance(value, Const | Symbol):
        return size_expression(value.size if isinstance(value, Symbol) else int(value.value), variables)
    assert isinstance(value, Op)
    joins = {"add": add, "sub": sub, "mul": mul, "floordiv": tirx.floordiv, "min": tirx.min, "max": tirx.max}
    left, right = (index_expression(argument, variables) for argument in value.args)
    return joins[value.name](left, right)


def sizes_of_call(function: Any, call: Any, result: Any, dims: Mapping[str, Dim]) -> dict[Any, Extent]:
    """What a PrimFunc's variables stand for in one call; those that can't be told are missing.

    Args:
        call: ``relax.call_tir``.
        result: struct info of what it gives.
        dims: of the module.
    """
    from tvm import relax, tirx

    infos = [argument.struct_info for argument in call.args[1].fields]
    infos += list(result.fields) if isinstance(result, relax.TupleStructInfo) else [result]
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    scalars = [p for p in function.params if p not in function.buffer_map]
    pairs: list[tuple[Any, Any]] = []
    for buffer, info in zip(buffers, infos, strict=False):
        pairs += zip(buffer.shape, info.shape, strict=False)
    if len(call.args) > 2:
        pairs += zip(scalars, call.args[2].values, strict=False)
    found: dict[Any, Extent] = {}
    for local, value in pairs:
        if isinstance(local, tirx.Var) and local not in found:
            free = tirx.analysis.undefined_vars(value) if isinstance(value, tirx.PrimExpr) else []
            known = {v: size_of(dims[v.name]) for v in free if v.name in dims}
            try:
                found[local] = extent_of(value, known)
            except UnknownSize:
                continue
    return found
