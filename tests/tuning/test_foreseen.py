"""Choosing for a GPU that isn't here: ranked, compiled, judged again; the compiler is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from redfuser.algebra import derive
from redfuser.codegen.backend import Kernel
from redfuser.codegen.gpu.value import Resources
from redfuser.codegen.refusal import Refused
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.targets import GpuTarget
from redfuser.tile.ir import TileProgram
from redfuser.tuning.foreseen import KEPT, Foresight, footprints
from redfuser.tuning.record import Record
from redfuser.tuning.spaces import space_of
from redfuser.tuning.task import Task
from tests.codegen.gpu.programs import gpu, quantised_product, softmax

TARGET = gpu("h800")
CASCADE = softmax(4096, 1024, "float16")
TASK = Task("softmax_0", CASCADE, CASCADE, derive(CASCADE))


class Compiler:
    """A back end that reports what it is told to, and refuses the first few."""

    def __init__(self, refused: int = 0, registers: int = 32) -> None:
        self.refused, self.registers = refused, registers
        self.asked: list[TileProgram] = []

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        self.asked.append(program)
        if len(self.asked) <= self.refused:
            raise Refused("spills", "doesn't fit the registers")
        used = Resources(self.registers, 0, 0, 0, 1024, dict(program.schedule.options)["threads"])
        code = SimpleNamespace(kernels=[SimpleNamespace(resources=used)] * len(program.phases))
        return Kernel(program, code, {}, {})


def tune(
    compiler: Any, trials: int = 64, seconds: float = 600, task: Task = TASK, target: GpuTarget = TARGET
) -> Record | None:
    """One cascade, usually with time enough."""
    options = CompileOptions(target, tune_seconds=seconds, trials=trials)
    return Foresight(options, target, Silent(), compiler).tune(task)


def test_the_best_of_those_that_pass_is_taken_and_marked_as_modelled() -> None:
    compiler = Compiler(refused=2)
    record = tune(compiler)
    assert record is not None and record.how == "modelled" and record.time_us > 0
    assert len(compiler.asked) == KEPT + 2
    passed = [program.schedule for program in compiler.asked[2:]]
    assert record.schedule.schedule().tiles in [tuple(sorted(schedule.tiles)) for schedule in passed]
    assert record.space is not None and record.space.points > record.space.candidates > KEPT
    assert record.space.excluded["over the registers of a thread"] > 0
    assert (record.told.compiled, record.told.refused) == (KEPT + 2, {"spill": 2})
    assert record.told.next_us >= record.time_us


def test_no_more_are_compiled_than_allowed_and_none_gives_none() -> None:
    compiler = Compiler(refused=100)
    assert tune(compiler, trials=3) is None and len(compiler.asked) == 3


def test_the_time_ends_it_whether_any_passed_or_not() -> None:
    refusing, passing = Compiler(refused=100), Compiler()
    assert tune(refusing, seconds=0) is None and len(refusing.asked) == 1
    assert tune(passing, seconds=0) is not None and len(passing.asked) == 1


def test_a_cascade_without_candidates_is_left_as_it_is() -> None:
    bytes8 = quantised_product(256, 256, 256, "float8_e4m3fn", 448.0)
    task = Task("product_0", bytes8, bytes8, derive(bytes8))
    compiler = Compiler()
    assert tune(compiler, task=task, target=gpu("a10")) is None and not compiler.asked


def test_twice_gives_the_same() -> None:
    assert tune(Compiler()) == tune(Compiler())


def test_the_report_of_the_compiler_counts() -> None:
    untuned = space_of(CASCADE, derive(CASCADE), TARGET).survey().candidates[0].program
    kernel = Compiler(registers=200).generate(untuned, 0)
    assert [(f.registers, f.shared) for f in footprints(kernel)] == [(200, 1024)]
