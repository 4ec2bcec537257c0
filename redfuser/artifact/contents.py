"""What a compile hands to the artifact writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from redfuser.report.value import FusionReport
from redfuser.signature import DimRange, DimSum, TensorSpec


@dataclass(frozen=True)
class KernelFiles:
    """The readable files of one kernel, put under ``kernels/NAME/``.

    Args:
        name: a safe identifier (never taken from the model file).
        files: file name -> text: ``tile.txt``, ``kernel.tir``, ``resources.json``.
    """

    name: str
    files: Mapping[str, str]

    def __str__(self) -> str:
        return f"kernel {self.name}: {', '.join(sorted(self.files))}"


@dataclass(frozen=True)
class CompiledModule:
    """A compiled model that hasn't been written yet.

    Args:
        report: the fusion report.
        kernels: readable files of every generated kernel.
        module_writer: writes the shared library to the given path.
        inputs: what the module takes, in order.
        outputs: what it gives, in order.
        dims: range of each symbolic dimension of the inputs.
        sums: what those of them have to be that others decide.
        tuning_lock: text of ``tuning.lock``.
        dump: stage name -> its value, whose text ``--dump`` writes.
    """

    report: FusionReport
    kernels: tuple[KernelFiles, ...]
    module_writer: Callable[[Path], None]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tuning_lock: str
    dims: Mapping[str, DimRange] = field(default_factory=dict)
    sums: Mapping[str, DimSum] = field(default_factory=dict)
    dump: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"compiled {self.report.model.name}"]
        lines += [f"  input  {spec}" for spec in self.inputs]
        lines += [f"  output {spec}" for spec in self.outputs]
        lines += [f"  {kernel}" for kernel in self.kernels]
        return "\n".join(lines)
