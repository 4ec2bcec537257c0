"""TVM's CUDA text to machine code without a driver, and its kernels called directly. Imports TVM: import it lazily.

TVM hands CUDA text to the global function ``ffi.Module.create.cuda``, which exists only where a driver is installed
and then embeds text to be compiled by whoever loads the module. Ours takes its place for the time of a build: it
compiles the text and returns the launcher as a static object. An object isn't searched for packed functions, so the
host's calls by name become calls of symbols.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from redfuser.codegen.gpu.launch import PackedKernel, build_packed, static_object
from redfuser.codegen.gpu.launch.tables import PACKED_PREFIX
from redfuser.codegen.gpu.remainder.identities import start_infinite
from redfuser.codegen.gpu.remainder.words import without_words
from redfuser.codegen.gpu.tools.toolkit import compile_cuda

CREATE = "ffi.Module.create.cuda"

#: Name of the TIR pipeline that :func:`machine_code` provides.
PIPELINE = "redfuser-cuda"

#: TVM's text relies on operators that the headers hide without these. Not --use_fast_math: see METHOD on accuracy.
OPTIONS = (
    "-O3",
    "-std=c++17",
    "--expt-relaxed-constexpr",
    *(f"-U__CUDA_NO_{kind}_OPERATORS__" for kind in ("HALF", "BFLOAT16", "BFLOAT162")),
    *(f"-U__CUDA_NO_{kind}_CONVERSIONS__" for kind in ("HALF", "BFLOAT16", "BFLOAT162")),
)

#: Launch extents as the launcher's letters.
EXTENTS = {
    "blockIdx.x": "x",
    "blockIdx.y": "y",
    "blockIdx.z": "z",
    "threadIdx.x": "X",
    "threadIdx.y": "Y",
    "threadIdx.z": "Z",
    "tirx.use_dyn_shared_memory": "s",
}

_registry = threading.Lock()


@contextmanager
def machine_code(arch: str) -> Iterator[list[str]]:
    """Within it, ``relax.build(…, tir_pipeline=PIPELINE)`` gives machine code for ``arch``. One build at a time.

    Yields:
        The CUDA texts that were compiled, as they are.

    Raises:
        MissingToolError, CudaError: from within the build; see :mod:`redfuser.codegen.gpu.tools.toolkit`.
    """
    failure: list[Exception] = []
    texts: list[str] = []
    with _registry:
        before = tvm_ffi.get_global_func(CREATE, allow_missing=True)
        tvm_ffi.register_global_func(CREATE, _creator(arch, texts, failure), override=True)
        tirx.compilation_pipeline.register_tir_pipeline(PIPELINE, _pipeline)
        try:
            yield texts
        except Exception as error:
            # TVM wraps whatever its callbacks raise.
            if failure:
                raise failure[0] from error
            raise
        finally:
            del tirx.compilation_pipeline.PIPELINE_MAP[PIPELINE]
            if before is None:
                tvm_ffi.registry.remove_global_func(CREATE)
            else:
                tvm_ffi.register_global_func(CREATE, before, override=True)


def _creator(arch: str, texts: list[str], failure: list[Exception]) -> Callable[..., Any]:
    def create(text: Any, _format: str, kernels: Mapping[str, Any], _source: Any) -> Any:
        try:
            texts.append(_with_prelude(bytes(text).decode()))
            return _object(texts[-1], arch, kernels)
        except Exception as error:
            failure.append(error)
            raise

    return create


def _object(text: str, arch: str, kernels: Mapping[str, Any]) -> Any:
    cubin = compile_cuda(text, arch, OPTIONS)
    described = [_packed(str(name), kernels[name]) for name in sorted(kernels, key=str)]
    return static_object(build_packed(described, arch, cubin.code), [])


def _with_prelude(text: str) -> str:
    """TVM's text with ours between its own definitions, which must stay as they are, and its kernels."""
    prelude = (resources.files("redfuser.codegen.gpu.remainder") / "prelude.cu").read_text(encoding="utf-8")
    head, kernel, rest = text.partition('extern "C" __global__')
    return f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n{head}{prelude}{kernel}{rest}"


def _packed(name: str, described: Any) -> PackedKernel:
    kinds = "".join(_kind(name, str(dtype)) for dtype in described.arg_types)
    return PackedKernel(name, kinds, "".join(EXTENTS[str(tag)] for tag in described.launch_param_tags))


def _kind(name: str, dtype: str) -> str:
    if dtype == "handle":
        return "p"
    if dtype.startswith(("int", "uint", "bool")):
        return "i"
    if dtype in ("float32", "float64"):
        return "f" if dtype == "float32" else "d"
    raise ValueError(f"kernel {name} takes a scalar of type {dtype}")


def _pipeline() -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    """TVM's own pipeline for scheduled functions; at its end, calls by name of a kernel become calls of its symbol."""
    inner, host, device = tirx.get_tir_pipeline("s_tir")
    kernels: set[str] = set()

    @tvm.transform.module_pass(opt_level=0)
    def lower(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        module = without_words(start_infinite(inner(module)))
        for _, function in module.functions_items():
            if "tirx.kernel_launch_params" in function.attrs:
                kernels.add(str(function.attrs["global_symbol"]))
        return module

    def finish_host() -> tvm.transform.Pass:
        return tvm.transform.Sequential([_call_directly(kernels), host()])

    return lower, finish_host, device


def _call_directly(kernels: set[str]) -> tvm.transform.Pass:
    def direct(call: tirx.Call) -> tirx.Call | None:
        if call.op != tvm.ir.Op.get("tirx.tvm_call_packed") or not isinstance(call.args[0], tirx.StringImm):
            return None
        name = call.args[0].value
        if name not in kernels:
            return None
        symbol = tirx.StringImm(PACKED_PREFIX + name)
        return tirx.Call(call.dtype, tvm.ir.Op.get("tirx.tvm_call_cpacked"), [symbol, *call.args[1:]])

    @tirx.transform.prim_func_pass(opt_level=0)
    def rewrite(function: tirx.PrimFunc, _module: Any, _context: Any) -> tirx.PrimFunc:
        body = tirx.stmt_functor.ir_transform(function.body, None, direct, ["tirx.Call"])
        return function.with_body(body)

    return rewrite
