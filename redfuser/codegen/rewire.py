"""Put generated kernels in the place of the bindings they replace. Imports TVM: import it lazily."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from redfuser.cascade.reading.sizes import index_expression, size_expression, variables_of_module
from redfuser.expr import Tensor
from redfuser.tile.ir import Derived

#: FuseOps merges a call with its neighbours, and miscompiles ours, unless told that it is opaque and finished.
OPAQUE = {"op_pattern": 8, "tirx.is_scheduled": True}


@dataclass(frozen=True)
class Replacement:
    """A kernel and the place in ``main`` it takes.

    Args:
        kernel: a scheduled PrimFunc; parameters are the inputs, then the outputs. None where the symbol is machine
            code that is linked into the module.
        name: its global symbol; replacements of one name share one kernel.
        inputs: variables and constants of ``main``.
        outputs: variables bound in ``main`` that the kernel defines from now on.
        scratch: memory to pass after the outputs, for the time of the call.
        dims: symbolic dimensions that machine code takes, as integers after the inputs.
        derived: how those of them that the module hasn't follow from others.
    """

    kernel: tvm.tirx.PrimFunc | None
    name: str
    inputs: tuple[relax.Expr, ...]
    outputs: tuple[relax.Var, ...]
    scratch: tuple[Tensor, ...] = ()
    dims: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()

    def __str__(self) -> str:
        outputs = ", ".join(var.name_hint for var in self.outputs)
        inputs = ", ".join(e.name_hint if isinstance(e, relax.Var) else "constant" for e in self.inputs)
        return f"{outputs} = {self.name}({inputs})"


def rewire(module: tvm.IRModule, replacements: Sequence[Replacement]) -> tvm.IRModule:
    """Bind the outputs of each replacement to a call of its kernel, and drop what is dead then.

    Args:
        module: ``main`` has one dataflow block.
        replacements: their outputs are disjoint, and no kernel needs what another one hides.

    Raises:
        ValueError: a kernel's input depends on one of its own outputs.
    """
    if not replacements:
        return module
    builder = relax.BlockBuilder(module)
    kernels: dict[str, tvm.ir.GlobalVar] = {}
    for each in replacements:
        if each.kernel is not None and each.name not in kernels:
            kernels[each.name] = builder.add_func(_rooted(each.kernel).with_attrs(OPAQUE), each.name)
    module = builder.get()
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    groups = _groups(bindings, replacements, kernels, variables_of_module(module))
    ordered = [binding for group in _sorted(groups) for binding in group]
    module = with_bindings(module, ordered)
    return relax.transform.DeadCodeElimination()(module)


def _rooted(kernel: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """The kernel inside a root block, without which passes that look for reshapes fail on it."""
    from tvm import tirx

    if isinstance(kernel.body, tirx.SBlockRealize):
        return kernel
    root = tirx.SBlock([], [], [], "root", kernel.body)
    return kernel.with_body(tirx.SBlockRealize([], True, root))


def with_bindings(
    module: tvm.IRModule, bindings: Sequence[relax.Binding], result: relax.Expr | None = None
) -> tvm.IRModule:
    """The module with the bindings of ``main`` replaced; its result stays unless another one is given."""
    main = module["main"]
    body = relax.SeqExpr([relax.DataflowBlock(list(bindings))], main.body.body if result is None else result)
    function = relax.Function(main.params, body, main.ret_struct_info, main.is_pure, main.attrs)
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    updated.update_func(updated.get_global_var("main"), function)
    return relax.transform.Normalize()(updated)


def _groups(
    bindings: Sequence[relax.Binding],
    replacements: Sequence[Replacement],
    kernels: dict[str, tvm.ir.GlobalVar],
    variables: Mapping[str, tvm.tirx.Var],
) -> list[list[relax.Binding]]:
    """Bindings that stay together, a replacement's at the place of its first output."""
    owner = {var: each for each in replacements for var in each.outputs}
    groups: list[list[relax.Binding]] = []
    placed: set[int] = set()
    for binding in bindings:
        each = owner.get(binding.var)
        if each is None:
            groups.append([binding])
        elif id(each) not in placed:
            placed.add(id(each))
            groups.append(_call(each, kernels.get(each.name), variables))
    return groups


def _call(
    each: Replacement, kernel: tvm.ir.GlobalVar | None, variables: Mapping[str, tvm.tirx.Var]
) -> list[relax.Binding]:
    derived = {item.dim.name: index_expression(item.value, variables) for item in each.derived}
    variables = {**variables, **derived}
    infos = [*(var.struct_info for var in each.outputs), *(_info(tensor, variables) for tensor in each.scratch)]
    inputs, wanted = list(each.inputs), infos if len(infos) > 1 else infos[0]
    if kernel is None or each.kernel is None:
        sizes = [relax.PrimValue(variables[name]) for name in each.dims]
        value = relax.call_dps_packed(each.name, [*inputs, *sizes], wanted)
    else:
        # What isn't a tensor among the parameters is a symbolic dimension, by name.
        dims = [variables[p.name] for p in each.kernel.params if p not in each.kernel.buffer_map]
        value = relax.call_tir(kernel, inputs, wanted, tir_vars=relax.ShapeExpr(dims) if dims else None)
    if len(infos) == 1:
        return [relax.VarBinding(each.outputs[0], value)]
    results = relax.DataflowVar(f"{each.name}_results", relax.TupleStructInfo(infos))
    call = relax.VarBinding(results, value)
    items = [relax.VarBinding(var, relax.TupleGetItem(results, place)) for place, var in enumerate(each.outputs)]
    return [call, *items]


def _info(tensor: Tensor, variables: Mapping[str, tvm.tirx.Var]) -> relax.TensorStructInfo:
    return relax.TensorStructInfo([size_expression(extent, variables) for extent in tensor.shape], tensor.dtype)


def _sorted(groups: list[list[relax.Binding]]) -> list[list[relax.Binding]]:
    """In order of dependence; what doesn't depend on each other keeps its order."""
    home = {binding.var: place for place, group in enumerate(groups) for binding in group}
    users: dict[int, list[int]] = {}
    waiting: list[int] = []
    for place, group in enumerate(groups):
        read = {var for binding in group for var in relax.analysis.free_vars(binding.value)}
        sources = {home[var] for var in read if var in home} - {place}
        waiting.append(len(sources))
        for source in sources:
            users.setdefault(source, []).append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    result = []
    while ready:
        place = heapq.heappop(ready)
        result.append(groups[place])
        for user in users.get(place, []):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(result) < len(groups):
        stuck = next(group[-1].var.name_hint for place, group in enumerate(groups) if waiting[place])
        raise ValueError(f"{stuck} depends on itself: a replacement isn't convex")
    return result
