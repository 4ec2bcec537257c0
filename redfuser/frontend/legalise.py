"""Relax -> Relax: every operator becomes a call of a PrimFunc, every variable gets a unique, traced name.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from redfuser.frontend.constants import fold_views
from redfuser.frontend.identities import start_at_infinity
from redfuser.frontend.importer import marked_node


def legalise(module: tvm.IRModule, operators: Sequence[str]) -> tuple[tvm.IRModule, dict[str, int]]:
    """Legalise an imported module.

    Args:
        module: as :func:`redfuser.frontend.importer.import_graph` gives it.
        operators: operator of each ONNX node, by its index.

    Returns:
        The module, and for each variable it binds the index of the ONNX node it came from.
    """
    module, owners = _rename(fold_views(module), {}, operators)
    module = _run(module, relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps())
    module, owners = _rename(start_at_infinity(module), owners, operators)
    module = _run(
        module,
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
    )
    bound = [binding.var.name_hint for block in module["main"].body.blocks for binding in block.bindings]
    return module, {name: owners[name] for name in bound}


def _run(module: tvm.IRModule, *passes: tvm.transform.Pass) -> tvm.IRModule:
    return tvm.transform.Sequential(list(passes))(module)


def _rename(
    module: tvm.IRModule, owners: dict[str, int], operators: Sequence[str]
) -> tuple[tvm.IRModule, dict[str, int]]:
    """Name every binding ``<operator>_<node index>``, temporaries with a further number.

    A binding without a known owner belongs to the next one that has one: legalisation and conversion
    put temporaries directly before the result they serve. Copies of variables are dropped.
    """
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    owner_of: dict[int, int] = {}
    owner = None
    for place in range(len(bindings) - 1, -1, -1):
        name = bindings[place].var.name_hint
        known = owners.get(name, marked_node(name))
        owner = known if known is not None else owner
        if owner is not None:
            owner_of[place] = owner
    replacements: dict[relax.Var, relax.Expr] = {}
    renamed: dict[str, int] = {}
    counts: dict[int, int] = {}
    kept: list[relax.Binding] = []
    substitute = _Substitute(replacements)
    for place, binding in enumerate(bindings):
        value = substitute.visit_expr(binding.value)
        if place not in owner_of or isinstance(value, relax.Var | relax.Constant):
            replacements[binding.var] = value  # a copy, or the tuple of results that main returns
            continue
        index = owner_of[place]
        counts[index] = counts.get(index, 0) + 1
        name = f"{operators[index].lower()}_{index}" + (f"_{counts[index] - 1}" if counts[index] > 1 else "")
        renamed[name] = index
        replacements[binding.var] = relax.DataflowVar(name, binding.var.struct_info)
        kept.append(relax.VarBinding(replacements[binding.var], value))
    return _rebuild(module, kept, substitute.visit_expr(main.body.body)), renamed


def _rebuild(module: tvm.IRModule, bindings: list[relax.Binding], result: relax.Expr) -> tvm.IRModule:
    """The module with ``main``'s body replaced; what ``main`` returns leaves the dataflow block."""
    main = module["main"]
    results = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    public = {var: relax.Var(var.name_hint, var.struct_info) for var in results if isinstance(var, relax.DataflowVar)}
    substitute = _Substitute(public)
    blocks = [
        relax.VarBinding(public.get(binding.var, binding.var), substitute.visit_expr(binding.value))
        for binding in bindings
    ]
    outputs = [substitute.visit_expr(value) for value in results]
    body = relax.Tuple(outputs) if isinstance(result, relax.Tuple) else outputs[0]
    function = relax.Function(
        main.params,
        relax.SeqExpr([relax.DataflowBlock(blocks)], body),
        body.struct_info,
        main.is_pure,
        main.attrs,
    )
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    updated.update_func(updated.get_global_var("main"), function)
    return relax.transform.Normalize()(updated)


@mutator
class _Substitute(PyExprMutator):
    """Replace variables by what they stand for."""

    def __init__(self, replacements: dict[relax.Var, relax.Expr]) -> None:
        super().__init__()
        self.replacements = replacements

    def visit_var_(self, op: relax.Var) -> relax.Expr:
        return self.replacements.get(op, op)

    def visit_dataflow_var_(self, op: relax.DataflowVar) -> relax.Expr:
        return self.replacements.get(op, op)
