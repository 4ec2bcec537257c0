"""A part of ``main`` as a module by itself, to be timed alone. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax


@dataclass(frozen=True)
class Excerpt:
    """What computes some values of a model, by itself.

    Args:
        module: ``main`` takes what is given and returns what is wanted; constants stay what they are.
        given: what is computed from, in the model; what is no constant is a parameter.
        wanted: what is computed, in the model and in the module.
        parameters: shape and type of each parameter.
    """

    module: tvm.IRModule
    given: tuple[relax.Expr, ...]
    wanted: tuple[relax.Var, ...]
    parameters: tuple[relax.TensorStructInfo, ...]

    def __str__(self) -> str:
        return str(self.module.script(show_meta=False))


def excerpt(module: tvm.IRModule, given: Sequence[relax.Expr], wanted: Sequence[relax.Var]) -> Excerpt:
    """The bindings between some values of ``main`` and others.

    Args:
        module: ``main`` has dataflow blocks alone, of fixed shapes.
        given: variables and constants; nothing else may be needed.
        wanted: variables bound in ``main``; they keep their identity, so that they can be rewired.
    """
    bindings = {b.var: b for block in module["main"].body.blocks for b in block.bindings}
    variables = list(dict.fromkeys(value for value in given if isinstance(value, relax.Var)))
    needed, waiting = set(), [var for var in wanted if var not in variables]
    while waiting:
        var = waiting.pop()
        if var not in needed:
            needed.add(var)
            waiting += [v for v in relax.analysis.free_vars(bindings[var].value) if v not in variables]
    parameters = [relax.Var(f"given_{k}", var.struct_info) for k, var in enumerate(variables)]
    results = [relax.Var(f"wanted_{k}", var.struct_info) for k, var in enumerate(wanted)]
    inside = [
        *(relax.VarBinding(var, parameter) for var, parameter in zip(variables, parameters, strict=True)),
        *(binding for var, binding in bindings.items() if var in needed),
        *(relax.VarBinding(result, var) for result, var in zip(results, wanted, strict=True)),
    ]
    result = relax.Tuple(results)
    body = relax.SeqExpr([relax.DataflowBlock(inside)], result)
    main = relax.Function(parameters, body, result.struct_info).with_attr("global_symbol", "main")
    made = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    made.update_func(made.get_global_var("main"), main)
    made = relax.transform.Normalize()(made)
    infos = tuple(parameter.struct_info for parameter in parameters)
    return Excerpt(relax.transform.DeadCodeElimination(["main"])(made), tuple(given), tuple(wanted), infos)
