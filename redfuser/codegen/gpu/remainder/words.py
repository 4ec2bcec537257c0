"""Parameters of kernels that are called like words of C++, as a model may call its open dimensions. Imports TVM."""

from __future__ import annotations

import tvm
from tvm import tirx

from redfuser.codegen.gpu.emission.script import CPP


def without_words(module: tvm.IRModule) -> tvm.IRModule:
    """The module with other names for them: TVM writes names as they are."""
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            updated.update_func(variable, _renamed(function))
    return updated


def _renamed(function: tirx.PrimFunc) -> tirx.PrimFunc:
    words, taken = CPP.split(), {parameter.name for parameter in function.params}
    others = {p: tirx.Var(_other(p.name, taken), p.dtype) for p in function.params if p.name in words}
    if not others:
        return function
    parameters = [others.get(parameter, parameter) for parameter in function.params]
    body = tirx.stmt_functor.substitute(function.body, others)
    return tirx.PrimFunc(parameters, body, function.ret_type, None, function.attrs)


def _other(name: str, taken: set[str]) -> str:
    return next(other for other in (f"{name}_{n}" for n in range(len(taken) + 1)) if other not in taken)
