"""A folder to take to the GPU machine: machine code, launches, inputs, expected outputs, a script to run them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from redfuser.accuracy import RULES, compare
from redfuser.codegen.gpu.value import GpuProgram
from redfuser.errors import OutputError
from redfuser.expr import Tensor
from redfuser.expr.evaluate import numpy_dtype
from redfuser.records import digest, encode
from redfuser.targets import GpuTarget
from redfuser.tile.interpreter import interpret_blocks
from redfuser.tile.ir import Contract, TileProgram
from redfuser.tile.trials import as_tf32, chosen_blocks, trial_inputs
from redfuser.tile.walk import statements

Array = np.ndarray[Any, Any]
Results = dict[str, Array]

SCHEMA = "redfuser.bundle/2"

#: The script of a bundle, beside a copy of :mod:`redfuser.artifact.runner`.
RUN = '''"""Check and time the kernels of this bundle: see python run.py --help."""

import sys
from pathlib import Path

from runner.main import main

sys.exit(main(Path(__file__).resolve().parent))
'''

#: Sets of inputs for each kernel: ordinary ones, large ones, ones with minus infinity.
CASES = 3

#: Compute capabilities that exist, by major version.
MINORS = {8: (0, 6, 7, 9), 9: (0,)}


@dataclass(frozen=True)
class Peer:
    """The same in PyTorch.

    Args:
        name: one of :data:`redfuser.artifact.runner.torch_peers.PEERS`.
        inputs: names of the kernel's inputs, in the order in which the peer takes them.
        arguments: of the workload.
    """

    name: str
    inputs: tuple[str, ...]
    arguments: Mapping[str, int | float | str | bool]


@dataclass(frozen=True)
class BundledKernel:
    """One fused cascade.

    Args:
        kind: for people.
        moved_bytes: what it must read and write.
        program: what it computes.
        code: its machine code.
        tf32: whether its products of float32 are computed as TF32.
        peer: what computes the same in PyTorch; None if that isn't known.
    """

    kind: str
    moved_bytes: int
    program: TileProgram
    code: GpuProgram
    tf32: bool = False
    peer: Peer | None = None

    def rule(self, tensor: Tensor) -> str:
        """The rule of accuracy for an output."""
        if tensor.dtype == "float32" and self._multiplies_as_tf32:
            return "tf32"
        return tensor.dtype if tensor.dtype in RULES else "bfloat16"

    def expected(self, inputs: Mapping[str, Array], blocks: Collection[int] | None) -> tuple[Results, Results, Results]:
        """What the blocks of the last phase should give: see :func:`redfuser.tile.interpreter.interpret_blocks`.

        Returns:
            Outputs in float64; outputs as unfused operators round them, the factors of TF32 products too; and where
            elements were written.
        """
        exact, written = interpret_blocks(self.program, inputs, blocks, "float64")
        near = as_tf32(inputs) if self._multiplies_as_tf32 else inputs
        return exact, interpret_blocks(self.program, near, blocks)[0], written

    @property
    def _multiplies_as_tf32(self) -> bool:
        bodies = (phase.body for phase in self.program.phases)
        return self.tf32 and any(isinstance(s, Contract) for body in bodies for s in statements(body))


def write_bundle(folder: Path, model: str, target: GpuTarget, kernels: tuple[BundledKernel, ...], seed: int) -> None:
    """Write a bundle into a new or empty folder.

    Args:
        model: name of the model, for people.
        seed: of the inputs.

    Raises:
        OutputError: the folder holds something, or can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise OutputError(f"the folder {str(folder)!r} isn't empty", "choose another place for the bundle")
        programs = [_write_program(folder, kernel, seed) for kernel in kernels]
        described = {
            "schema": SCHEMA,
            "model": model,
            "target": target.name,
            "arch": target.arch,
            "capabilities": capabilities(target.arch),
            "programs": programs,
        }
        text = json.dumps({**described, "digest": digest(described)}, indent=2, allow_nan=False)
        (folder / "bundle.json").write_text(text + "\n", encoding="utf-8")
        (folder / "run.py").write_text(RUN, encoding="utf-8")
        (folder / "runner").mkdir()
        for source in resources.files("redfuser.artifact.runner").iterdir():
            if source.name.endswith(".py"):
                (folder / "runner" / source.name).write_bytes(source.read_bytes())
    except OSError as error:
        raise OutputError(f"cannot write the bundle to {str(folder)!r}: {error.strerror or error}") from error


def capabilities(arch: str) -> list[str]:
    """Compute capabilities that run machine code of an architecture: ``sm_80`` gives 8.0, 8.6, 8.7, 8.9."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    assert match is not None, arch
    major, minor = int(match[1]), int(match[2])
    return [f"{major}.{m}" for m in MINORS[major] if m == minor or (m > minor and not match[3])]


def _write_program(folder: Path, kernel: BundledKernel, seed: int) -> dict[str, Any]:
    code = kernel.code
    (folder / code.name).mkdir()
    steps = []
    for number, step in enumerate(code.kernels):
        cubin = f"{code.name}/kernel_{number}.cubin"
        (folder / cubin).write_bytes(step.cubin)
        arguments = [{"tensor": a.tensor, "tensor_map": encode(a.tensor_map)} for a in step.arguments]
        launch = {"grid": step.grid, "block": step.block, "cluster": step.cluster, "shared": step.dynamic_shared}
        steps.append({"cubin": cubin, "entry": step.entry, "arguments": arguments, **launch})
    tensors = [
        _tensor(tensor, role)
        for role, listed in (("input", code.inputs), ("output", code.outputs), ("workspace", code.workspaces))
        for tensor in listed
    ]
    cases = []
    for number, inputs in enumerate(islice(trial_inputs(kernel.program, seed), CASES)):
        cases.append(_write_case(folder, f"{code.name}/case_{number}.npz", kernel, inputs))
    head = {"name": code.name, "kind": kernel.kind, "bytes": kernel.moved_bytes, "peer": encode(kernel.peer)}
    return {**head, "tensors": tensors, "kernels": steps, "cases": cases}


def _tensor(tensor: Tensor, role: str) -> dict[str, Any]:
    kind = numpy_dtype(tensor.dtype)
    table = None
    if tensor.dtype.startswith("float8"):
        values = np.arange(256, dtype=np.uint8).view(kind).astype(np.float64)
        table = [float(value) if np.isfinite(value) else None for value in values]
    size = tensor.size * kind.itemsize
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "role": role,
        "bytes": size,
        "table": table,
    }


def _write_case(folder: Path, file: str, kernel: BundledKernel, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """The inputs as they lie in memory, and what the blocks that are interpreted should give."""
    program = kernel.program
    blocks = chosen_blocks(program)
    exact, rounded, written = kernel.expected(inputs, blocks)
    stored = {f"input:{name}": np.frombuffer(value.tobytes(), np.uint8) for name, value in inputs.items()}
    allowed = {}
    for tensor in program.outputs:
        where, name = written[tensor.name], tensor.name
        near = _plain(rounded[name])
        stored |= {f"exact:{name}": exact[name], f"rounded:{name}": near, f"written:{name}": where}
        allowed[name] = compare(near[where], exact[name][where], near[where], kernel.rule(tensor)).allowed_rmse
    with (folder / file).open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **stored)
    return {"file": file, "allowed": allowed}


def _plain(values: Array) -> Array:
    """In a type that NumPy can store."""
    return values.astype(np.float32) if values.dtype.kind == "V" or values.dtype.name.startswith("float8") else values
