"""The command line with a compile pipeline that answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from redfuser.artifact.contents import CompiledModule, KernelFiles
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.report.value import FusionReport
from redfuser.signature import TensorSpec
from redfuser_cli.main import main


class Outcome(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Redfuser = Callable[..., Outcome]


@pytest.fixture
def redfuser(capsys: pytest.CaptureFixture[str]) -> Redfuser:
    """Run the command line in this process."""

    def call(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return call


@dataclass
class FakeDriver:
    """Gives a ready report; ``fail`` is raised instead where set."""

    report: FusionReport
    fail: BaseException | None = None
    asked: list[CompileOptions] = field(default_factory=list)

    def analyze_model(self, model: Path, options: CompileOptions, progress: Progress) -> FusionReport:
        self.asked.append(options)
        progress.stage("detect cascades")
        progress.note("2 candidates")
        progress.step(1, 2)
        if self.fail is not None:
            raise self.fail
        return self.report

    def compile_model(self, model: Path, options: CompileOptions, progress: Progress) -> CompiledModule:
        return CompiledModule(
            report=self.analyze_model(model, options, progress),
            kernels=(KernelFiles("cascade_0", {"tile.txt": "program\n"}),),
            module_writer=lambda path: path.write_bytes(b"code") and None,
            inputs=(TensorSpec("x", (4, 512), "float32"),),
            outputs=(TensorSpec("y", (4, 512), "float32"),),
            tuning_lock="{}\n",
            dump={"lowered": "text"},
        )


@pytest.fixture
def driver(report: FusionReport, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Stands in for ``redfuser.driver``."""
    fake = FakeDriver(report)
    module = ModuleType("redfuser.driver")
    module.__dict__.update(analyze_model=fake.analyze_model, compile_model=fake.compile_model)
    monkeypatch.setitem(sys.modules, "redfuser.driver", module)
    return fake
