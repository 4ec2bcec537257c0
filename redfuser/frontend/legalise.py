"""Relax -> Relax: every operator becomes a call of a PrimFunc, every variable gets a unique, traced name.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from onnx import NodeProto
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend.annotations import drop_marks
from redfuser.frontend.constants import fold_views
from redfuser.frontend.identities import fill_empty_reductions, start_at_infinity
from redfuser.frontend.importer import marked_node


def legalise(module: tvm.IRModule, nodes: Sequence[NodeProto]) -> tuple[tvm.IRModule, dict[str, int]]:
    """Legalise an imported module.

    Args:
        module: as :func:`redfuser.frontend.importer.import_graph` gives it.
        nodes: the ONNX nodes it was imported from.

    Returns:
        The module, and for each variable it binds the index of the ONNX node it came from.

    Raises:
        UnsupportedOperatorError: TVM has no lowering of some operator; names the node.
    """
    operators = [node.op_type for node in nodes]
    module, owners = _rename(fold_views(module), {}, operators)
    module = _legalise_operators(module, owners, nodes)
    module, owners = _rename(fill_empty_reductions(start_at_infinity(drop_marks(module))), owners, operators)
    module = _run(
        module,
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
    )
    return module, {binding.var.name_hint: owners[binding.var.name_hint] for binding in _bindings(module)}


def _legalise_operators(module: tvm.IRModule, owners: dict[str, int], nodes: Sequence[NodeProto]) -> tvm.IRModule:
    try:
        legal = _to_tir(module)
    except Exception as error:  # TVM raises whatever comes to hand
        culprit = next((b for b in _bindings(module) if not _is_legal(module, b)), None)
        if culprit is None:
            raise
        raise _unsupported(nodes[owners[culprit.var.name_hint]]) from error
    for binding in _bindings(legal):
        value, owner = binding.value, owners.get(binding.var.name_hint)
        is_operator = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
        if owner is not None and is_operator and value.op.name != "relax.call_tir":
            raise _unsupported(nodes[owner])
    return legal


def _unsupported(node: NodeProto) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"operator {node.op_type} (node '{node.name}') is not supported as used here: TVM has no lowering of it"
    )


def _to_tir(module: tvm.IRModule) -> tvm.IRModule:
    return _run(module, relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps())


def _is_legal(module: tvm.IRModule, binding: relax.Binding) -> bool:
    """Whether a binding can be legalised on its own."""
    result = relax.Var("result", binding.var.struct_info)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(result, binding.value)])], result)
    alone = relax.Function(relax.analysis.free_vars(binding.value), body, result.struct_info)
    others = {var: f for var, f in module.functions_items() if var.name_hint != "main"}
    try:
        _to_tir(tvm.IRModule({**others, tvm.ir.GlobalVar("main"): alone.with_attr("global_symbol", "main")}))
    except Exception:  # TVM raises whatever comes to hand
        return False
    return True


def _bindings(module: tvm.IRModule) -> list[relax.Binding]:
    return [binding for block in module["main"].body.blocks for binding in block.bindings]


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
    bindings = _bindings(module)
    replacements: dict[relax.Var, relax.Expr] = {}
    renamed: dict[str, int] = {}
    counts: dict[int, int] = {}
    kept: list[relax.Binding] = []
    substitute = _Substitute(replacements)
    for binding, index in zip(bindings, _owners(bindings, owners), strict=True):
        value = substitute.visit_expr(binding.value)
        if index is None or isinstance(value, relax.Var | relax.Constant):
            replacements[binding.var] = value  # a copy, or the tuple of results that main returns
            continue
        counts[index] = counts.get(index, 0) + 1
        name = f"{operators[index].lower()}_{index}" + (f"_{counts[index] - 1}" if counts[index] > 1 else "")
        renamed[name] = index
        replacements[binding.var] = relax.DataflowVar(name, binding.var.struct_info)
        kept.append(relax.VarBinding(replacements[binding.var], value))
    return _rebuild(module, kept, substitute.visit_expr(main.body.body)), renamed


def _owners(bindings: Sequence[relax.Binding], known: dict[str, int]) -> list[int | None]:
    """The node of each binding: its own if known, else that of the next one; None after the last known."""
    owner: int | None = None
    result: list[int | None] = []
    for binding in reversed(bindings):
        name = binding.var.name_hint
        own = known.get(name, marked_node(name))
        owner = owner if own is None else own
        result.append(owner)
    return result[::-1]


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
