"""What GPU code generation gives: kernels as machine code with everything needed to launch them. No TVM.

As JSON: :func:`redfuser.records.encode` and ``decode``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from redfuser.expr import Tensor
from redfuser.extents import Dim
from redfuser.tile.ir import Derived

Role = Literal["input", "output", "workspace", "size"]

#: A number, or how it follows from open dimensions: their names and numbers with ``+ - * /`` of C, none negative.
Count = int | str


@dataclass(frozen=True)
class TensorMap:
    """How ``cuTensorMapEncodeTiled`` describes a tensor in memory to the copy engine (sm_90).

    Dimensions are listed innermost first; integer codes are the driver's enumerations. The tensor's address must
    be a multiple of 16 bytes.

    Args:
        data_type: ``CUtensorMapDataType``.
        shape: elements along each dimension.
        strides: bytes between neighbours along each dimension but the innermost.
        box: elements that one copy takes along each dimension.
        element_strides: steps within the box.
        interleave, swizzle, l2_promotion, fill: ``CUtensorMapInterleave``, ``…Swizzle``, ``…L2promotion``,
            ``…FloatOOBfill``.
    """

    data_type: int
    shape: tuple[Count, ...]
    strides: tuple[Count, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    fill: int

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= 5 or [len(self.strides) + 1, len(self.box), len(self.element_strides)] != [rank] * 3:
            raise ValueError(f"a tensor map has one to five dimensions, all described: {self.shape}")

    def __str__(self) -> str:
        return f"map type {self.data_type} box {list(self.box)} strides {list(self.strides)} swizzle {self.swizzle}"


@dataclass(frozen=True)
class Argument:
    """One kernel argument: the device address of a tensor, a tensor map of it, or an open dimension.

    Args:
        tensor: name in the tile program; of a dimension, its own.
        dtype, shape: of the tensor; of a dimension, a number's.
        role: what the tensor is to the program.
        tensor_map: the description to encode and pass in place of the address; None passes the address.
    """

    tensor: str
    dtype: str
    shape: tuple[Count, ...]
    role: Role
    tensor_map: TensorMap | None = None

    def __str__(self) -> str:
        described = f" as {self.tensor_map}" if self.tensor_map else ""
        return f"{self.role} {self.tensor}: {self.dtype}[{', '.join(map(str, self.shape))}]{described}"


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, as its compiler reports it.

    Args:
        registers: a thread.
        spill_stores, spill_loads: bytes a thread.
        static_shared, dynamic_shared: bytes a block.
        threads: of a block.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    dynamic_shared: int
    threads: int

    @property
    def spills(self) -> int:
        """Bytes a thread keeps in memory for want of registers."""
        return max(self.spill_stores, self.spill_loads)

    def __str__(self) -> str:
        shared = self.static_shared + self.dynamic_shared
        return f"{self.threads} threads, {self.registers} registers, {self.spills} B spilled, {shared} B shared"


@dataclass(frozen=True)
class GpuKernel:
    """One launch of one compiled kernel.

    Args:
        name: a safe identifier, unique in the module.
        script: the TileLang program it was made from.
        source: CUDA.
        cubin: machine code for ``arch``.
        entry: the kernel's symbol in ``cubin``.
        arguments: in the kernel's own order.
        grid: blocks along x, y, z; they may follow from open dimensions.
        block: threads along x, y, z.
        cluster: blocks of a cluster along x, y, z.
        arch: compute capability, such as ``sm_90a``.
    """

    name: str
    script: str
    source: str
    cubin: bytes
    entry: str
    arguments: tuple[Argument, ...]
    grid: tuple[Count, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    resources: Resources
    arch: str

    def __post_init__(self) -> None:
        known = [n for n in self.grid if isinstance(n, int)]
        extents = (self.grid, self.block, self.cluster)
        if any(len(given) != 3 for given in extents) or min((*known, *self.block, *self.cluster)) < 1:
            raise ValueError(f"{self.name}: grid, block and cluster have three positive extents")

    @property
    def dynamic_shared(self) -> int:
        """Bytes of shared memory to ask for at launch."""
        return self.resources.dynamic_shared

    def __str__(self) -> str:
        lines = [f"kernel {self.name} = {self.entry} [{self.arch}]", *(f"  {a}" for a in self.arguments)]
        lines.append(f"  grid {list(self.grid)} block {list(self.block)} cluster {list(self.cluster)}")
        return "\n".join([*lines, f"  {self.resources}"])


@dataclass(frozen=True)
class GpuProgram:
    """A tile program as kernels that are launched one after another on one stream.

    Args:
        name: of the tile program.
        inputs, outputs: tensors in calling order.
        workspaces: device memory that the caller provides for the time of the call.
        kernels: in launch order.
        products: what matrix products are computed in; see :class:`redfuser.codegen.gpu.emission.script.Script`.
        dims: open dimensions, passed as integers after the inputs.
        derived: those of them that the caller works out from others.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspaces: tuple[Tensor, ...]
    kernels: tuple[GpuKernel, ...]
    products: tuple[str, ...] = ()
    dims: tuple[Dim, ...] = ()
    derived: tuple[Derived, ...] = ()

    def __str__(self) -> str:
        workspaces = [f"  workspace {tensor}" for tensor in self.workspaces]
        return "\n".join([f"program {self.name}", *workspaces, *map(str, self.kernels)])
