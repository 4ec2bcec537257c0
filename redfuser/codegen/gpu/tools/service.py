"""The worker process: the only one that imports TileLang, which holds a TVM of its own.

Run as ``python -m redfuser.codegen.gpu.tools.service``. Reads one request a line from stdin and answers with one
line on stdout, both JSON; whatever TileLang prints goes to stderr.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

#: Kinds of launch parameters, in the order of a launch's extents.
_GRID, _BLOCK, _CLUSTER = (
    tuple(f"{name}.{axis}" for axis in "xyz") for name in ("blockIdx", "threadIdx", "clusterCtaIdx")
)
_SHARED = "tirx.use_dyn_shared_memory"

#: Arithmetic of sizes, none of which is negative.
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "/", "Div": "/"}


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    memory = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    import tilelang  # noqa: F401  before the first request, so that its time limit doesn't count the import

    with tempfile.TemporaryDirectory(prefix="redfuser-") as folder:
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for number, line in enumerate(sys.stdin):
            print(json.dumps(answer(json.loads(line), Path(folder), number)), file=answers, flush=True)


def answer(request: Mapping[str, str], folder: Path, number: int) -> dict[str, Any]:
    """Lower one script.

    Args:
        request: ``script``, ``name`` of the function in it, and ``arch``.
        folder: where the script is put, for TileLang reads a function's source from its file.
        number: makes the file's name new.
    """
    path = folder / f"script_{number}.py"
    path.write_text(request["script"], encoding="utf-8")
    try:
        return lower(getattr(load_script(path), request["name"]), request["arch"])
    except Exception as error:  # TileLang refuses with whatever exception comes to hand
        return {"error": f"{type(error).__name__}: {str(error)[:2000]}"}


def load_script(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lower(function: Any, arch: str) -> dict[str, Any]:
    """CUDA source and launch data of a TileLang function that is one kernel."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import device_codegen_without_compile, lower_to_host_device_ir

    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with tvm.transform.PassContext(opt_level=3), target:
        context = create_backend_context(target, "c", "tvm_ffi")
        host, device, _, _, _ = lower_to_host_device_ir(function, context)
        source = device_codegen_without_compile(device, context).inspect_source()
    [kernel] = device.functions.values()
    entry = str(kernel.attrs["global_symbol"])
    tags = [str(tag) for tag in kernel.attrs["tirx.kernel_launch_params"]]
    maps: dict[str, dict[str, Any]] = {}
    launches = []
    for name, arguments in host_calls(tvm, host):
        if name == "__tvm_tensormap_create_tiled":
            maps[arguments[0]] = tensor_map(arguments[1:])
        elif name == entry:
            launches.append(arguments)
    [launch] = launches
    count = len(kernel.params)
    extents = dict(zip(tags, launch[count:], strict=True))
    return {
        "source": source,
        "entry": entry,
        "arguments": [maps.get(name, {"parameter": name}) for name in launch[:count]],
        "grid": [extents.get(tag, 1) for tag in _GRID],
        "block": [extents.get(tag, 1) for tag in _BLOCK],
        "cluster": [extents.get(tag, 1) for tag in _CLUSTER],
        "dynamic_shared": extents.get(_SHARED, 0),
    }


def host_calls(tvm: Any, module: Any) -> Iterator[tuple[str, list[Any]]]:
    """Calls of packed functions in program order: variables by name, integers as they are, sizes as formulas."""
    found: list[tuple[str, list[Any]]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.Call) and node.op.name == "tirx.tvm_call_packed":
            found.append((str(node.args[0].value), [_plain(argument) for argument in node.args[1:]]))

    for function in module.functions.values():
        tvm.tirx.stmt_functor.post_order_visit(function.body, visit)
    return iter(found)


def _plain(argument: Any) -> str | int:
    return int(argument.value) if type(argument).__name__ == "IntImm" else _formula(argument)


def _formula(value: Any) -> str:
    """An integer expression as :data:`redfuser.codegen.gpu.value.Count` has it; other values by name.

    Raises:
        ValueError: it isn't made of sums, products and quotients.
    """
    kind = type(value).__name__
    if kind == "Cast":
        return _formula(value.value)
    if kind in _SIGNS:
        return f"({_formula(value.a)} {_SIGNS[kind]} {_formula(value.b)})"
    if kind in ("IntImm", "Var", "SizeVar"):
        return str(value.value if kind == "IntImm" else value.name)
    raise ValueError(f"a launch follows from its sizes by {value}")


def tensor_map(arguments: list[Any]) -> dict[str, Any]:
    """The arguments of ``__tvm_tensormap_create_tiled``, named as in :class:`redfuser.codegen.gpu.value.TensorMap`."""
    data_type, rank, parameter, *rest = arguments
    shape, strides, box, steps = (rest[n * rank : (n + 1) * rank] for n in range(4))
    interleave, swizzle, promotion, fill = rest[4 * rank :]
    return {
        "parameter": parameter,
        "tensor_map": {
            "data_type": data_type,
            "shape": shape,
            "strides": strides[1:],
            "box": box,
            "element_strides": steps,
            "interleave": interleave,
            "swizzle": swizzle,
            "l2_promotion": promotion,
            "fill": fill,
        },
    }


if __name__ == "__main__":
    main()
