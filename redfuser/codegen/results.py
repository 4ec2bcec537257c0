"""Results that belong to the caller. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import relax, topi

from redfuser.codegen.rewire import with_bindings


def own_results(module: tvm.IRModule) -> tvm.IRModule:
    """The module with results copied that would be an argument, a constant of the module, or the same array twice.

    Whoever calls ``main`` may then write to any result, and keep it while its arguments change.

    Args:
        module: ``main`` has one dataflow block.
    """
    main = module["main"]
    result = main.body.body
    taken: set[relax.Expr] = set(main.params)
    builder = relax.BlockBuilder(module)
    copies: list[relax.Binding] = []

    def owned(item: relax.Expr) -> relax.Expr:
        if item not in taken and not isinstance(item, relax.Constant):
            taken.add(item)
            return item
        copy = relax.Var(f"result_{len(copies)}", item.struct_info)
        copies.append(relax.VarBinding(copy, builder.call_te(topi.identity, item, primfunc_name_hint="copy")))
        return copy

    fields = [owned(item) for item in (result.fields if isinstance(result, relax.Tuple) else [result])]
    if not copies:
        return module
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    result = relax.Tuple(fields) if isinstance(result, relax.Tuple) else fields[0]
    return with_bindings(builder.get(), [*bindings, *copies], result)
