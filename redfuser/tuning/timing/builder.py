"""Candidates as compiled libraries that a runner can time. Imports TVM: import it lazily."""

from __future__ import annotations

from pathlib import Path

import tvm

from redfuser.codegen.backend import Assembly
from redfuser.codegen.cpu import generate
from redfuser.codegen.excerpt import Excerpt
from redfuser.targets import CpuTarget
from redfuser.tile import verify
from redfuser.tile.ir import TileProgram
from redfuser.tuning.timing.job import Argument, Failure, Job, arguments_of

KERNEL = "candidate"


class Builder:
    """Builds tile programs into libraries in one folder.

    Args:
        target: what to compile for.
        folder: where the libraries go; they are never removed here.
    """

    def __init__(self, target: CpuTarget, folder: Path) -> None:
        self.target, self.folder = target, folder
        self.built = 0

    def build(self, program: TileProgram) -> Job | Failure:
        """Machine code of one program, or why there is none. The one place where generators may fail in any way."""
        path = self._place()
        try:
            verify(program)
            function = generate(program, self.target).with_attr("global_symbol", KERNEL)
            machine = tvm.target.Target(self.target.llvm())
            with machine:
                tvm.compile(tvm.IRModule({KERNEL: function}), target=machine).export_library(str(path))
        except Exception as error:
            return Failure(" ".join(str(error).split())[:300] or type(error).__name__)
        return Job(str(path), KERNEL, arguments_of(program), len(program.outputs))

    def write(self, part: Excerpt, assembly: Assembly) -> Job:
        """A part of a model as a library, however it was compiled."""
        path = self._place()
        assembly.write(path)
        arguments = tuple(Argument(tuple(map(int, info.shape.values)), str(info.dtype)) for info in part.parameters)
        return Job(str(path), "main", arguments, 0, machine=True)

    def _place(self) -> Path:
        self.built += 1
        return self.folder / f"{self.built}.so"
