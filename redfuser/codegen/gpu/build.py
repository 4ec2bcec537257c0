"""Tile programs to machine code: scripts, the worker, the compiler, the cache and the gate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from types import TracebackType

from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.emission.pairs import pairs_as_integers
from redfuser.codegen.gpu.emission.script import Script
from redfuser.codegen.gpu.gate import foreseen_problem, read_resources, resource_problem, type_problem
from redfuser.codegen.gpu.tools.cache import KernelCache, cache_folder
from redfuser.codegen.gpu.tools.toolchain import Toolchain, find_toolchain
from redfuser.codegen.gpu.tools.toolkit import CudaError, compile_cuda
from redfuser.codegen.gpu.tools.worker import Limits, Lowered, LoweredArgument, Worker
from redfuser.codegen.gpu.value import Argument, Count, GpuKernel, GpuProgram, Role, TensorMap
from redfuser.codegen.refusal import Refused
from redfuser.expr import Tensor
from redfuser.expr.binding import dims_in
from redfuser.extents import is_symbolic
from redfuser.options import Fp32
from redfuser.reason import Reason
from redfuser.records import digest
from redfuser.targets import GpuTarget
from redfuser.tile.ir import TileProgram

#: What the assembler says of WGMMA instructions that wait for each other.
_SERIALISED = "wgmma.mma_async instructions are serialized"

#: Options for results in half precision: division to two last places, numbers below the normal range as 0.
_FAST = ("-prec-div=false", "-ftz=true")

#: Changes whenever the same script would become another kernel.
FORMAT = 2


@dataclass
class Builder:
    """Builds kernels, two at a time; a context manager that ends the worker processes.

    Args:
        workers: processes that lower scripts.
        cache: where compiled kernels are kept; None keeps none.
        limits: of one script.
        fp32: how products of float32 are computed.
    """

    workers: int = 2
    cache: KernelCache | None = field(default_factory=lambda: KernelCache(cache_folder()))
    limits: Limits = field(default_factory=Limits)
    fp32: Fp32 = "tf32"
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _idle: SimpleQueue[Worker] = field(default_factory=SimpleQueue, init=False)

    def __enter__(self) -> Builder:
        for _ in range(self.workers):
            self._idle.put(self._stack.enter_context(Worker(self.limits)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def build(self, program: TileProgram, target: GpuTarget) -> GpuProgram:
        """Compile every phase of a program.

        Raises:
            Refused: the program can't be expressed, lowered or compiled, or the target can't run it.
            MissingToolError: the ``gpu`` extra isn't installed.
        """
        tools = find_toolchain()
        _require(type_problem(program, target))
        scripts = emit(program, self.fp32, target.has("wgmma"))
        program = pairs_as_integers(program)
        for script in scripts:
            _require(foreseen_problem(script, target))
        with ThreadPoolExecutor(self.workers) as pool:
            kernels = tuple(pool.map(lambda script: self._kernel(script, program, target.arch, tools), scripts))
        for kernel in kernels:
            _require(resource_problem(kernel, target))
        products = tuple(sorted({product for script in scripts for product in script.products}))
        tensors = (program.inputs, program.outputs, program.workspaces)
        return GpuProgram(program.name, *tensors, kernels, products, dims_in(program), program.derived)

    def _kernel(self, script: Script, program: TileProgram, arch: str, tools: Toolchain) -> GpuKernel:
        roles = _roles(program)
        listed = [[t.name, t.dtype, list(t.shape), roles[t]] for t in script.parameters]
        key = digest([FORMAT, script.text, listed, arch, [*tools.versions]])
        kernel = self.cache.get(key) if self.cache is not None else None
        if kernel is None:
            kernel = self._compile(script, roles, arch, tools)
            if self.cache is not None:
                self.cache.put(key, kernel)
        return kernel

    def _compile(self, script: Script, roles: Mapping[Tensor, Role], arch: str, tools: Toolchain) -> GpuKernel:
        worker = self._idle.get()
        try:
            lowered = worker.lower(script, arch)
        finally:
            self._idle.put(worker)
        try:
            compiled = compile_cuda(
                lowered.source, arch, ("-std=c++20", *tools.includes, *(_FAST if script.fast else ()))
            )
        except CudaError as error:
            raise Refused("compiler", f"nvcc refuses {script.name}", str(error)[:300]) from error
        if _SERIALISED in compiled.log:
            raise Refused("serialised", f"matrix products of {script.name} wait for each other: too few registers")
        threads = lowered.block[0] * lowered.block[1] * lowered.block[2]
        resources = read_resources(compiled.log, lowered.dynamic_shared, threads)
        return GpuKernel(
            script.name,
            script.text,
            lowered.source,
            compiled.code,
            lowered.entry,
            _arguments(script, lowered, roles),
            tuple(_named(script, blocks) for blocks in lowered.grid),
            lowered.block,
            lowered.cluster,
            resources,
            arch,
        )


def _require(problem: Reason | None) -> None:
    if problem is not None:
        raise Refused(problem.code, problem.text, problem.witness)


def _roles(program: TileProgram) -> dict[Tensor, Role]:
    roles: dict[Tensor, Role] = dict.fromkeys(program.inputs, "input")
    roles |= dict.fromkeys(program.outputs, "output")
    return roles | dict.fromkeys(program.workspaces, "workspace")


def _arguments(script: Script, lowered: Lowered, roles: Mapping[Tensor, Role]) -> tuple[Argument, ...]:
    tensors = dict(zip(script.names, script.parameters, strict=True))
    result = []
    for argument in lowered.arguments:
        tensor, dim = tensors.get(argument.parameter), script.sizes.get(argument.parameter)
        if dim is not None:
            result.append(Argument(dim.name, "int32", (), "size"))
        elif tensor is not None:
            shape = tuple(str(extent) if is_symbolic(extent) else extent for extent in tensor.shape)
            result.append(Argument(tensor.name, tensor.dtype, shape, roles[tensor], _described(script, argument)))
        else:
            raise Refused("argument", f"{script.name} takes an argument that is no tensor", argument.parameter)
    return tuple(result)


def _described(script: Script, argument: LoweredArgument) -> TensorMap | None:
    described = argument.tensor_map
    if described is None:
        return None
    lists = (described.shape, described.strides)
    shape, strides = (tuple(_named(script, count) for count in counts) for counts in lists)
    return replace(described, shape=shape, strides=strides)


def _named(script: Script, count: Count) -> Count:
    """A formula with dimensions' own names for those that the script has."""
    if isinstance(count, int):
        return count
    return re.sub(r"[A-Za-z_]\w*", lambda called: script.sizes[called[0]].name, count)
