"""One cascade to a kernel for a GPU, with a made-up compiler: what records tell of the choice, what locks pin."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Kernel
from redfuser.codegen.backends import backend_for
from redfuser.codegen.gpu.value import Resources
from redfuser.codegen.refusal import Refused
from redfuser.errors import LockMissError
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.report.collect import describe_choice
from redfuser.stages.fusion import Outcome, ProductMaker, fuse
from redfuser.tile.ir import TileProgram
from redfuser.tile.untuned.choice import Choice
from redfuser.tuning.choose import chooser
from redfuser.tuning.record import TuningLock
from tests.codegen.gpu.programs import Attention, gpu, softmax

TARGET = gpu("h800")
OPTIONS = CompileOptions(TARGET)
ATTENTION = Attention("float16", heads=2, q_len=256, kv_len=256, dim=64).cascade()


class Compiler:
    """The GPU's choices, and a compiler that refuses the first few."""

    def __init__(self, *refused: Refused) -> None:
        self.refused = list(refused)

    def choices(self, cascade: Cascade, derivation: Derivation) -> tuple[Choice, ...]:
        return backend_for(TARGET).choices(cascade, derivation)

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        if self.refused:
            raise self.refused.pop(0)
        used = Resources(96, 0, 0, 0, 1024, dict(program.schedule.options)["threads"])
        code = SimpleNamespace(kernels=[SimpleNamespace(resources=used)] * len(program.phases))
        return Kernel(program, code, {"kernel.py": str(program)}, {})


def made(compiler: Any, options: CompileOptions = OPTIONS, cascade: Cascade = ATTENTION) -> Outcome:
    """The outcome of a cascade."""
    with chooser(options, Silent()) as choose:
        return fuse(cascade, "kernel_0", options, compiler, choose)


def lock_of(outcome: Outcome, name: str = "kernel_0") -> TuningLock:
    assert outcome.record is not None
    return TuningLock.make(TARGET, {name: outcome.record})


def told(outcome: Outcome) -> str:
    """The choice in words."""
    assert outcome.record is not None
    return str(describe_choice(outcome.record))


def test_a_choice_by_rule_tells_what_it_passed_over_and_what_comes_next() -> None:
    spilt, large = Refused("spills", "x doesn't fit the registers"), Refused("resources", "takes more shared memory")
    plain, passed = made(Compiler()), made(Compiler(spilt, large))
    assert told(plain) == "by rule: 128 points of i share each load; 4 blocks for 132 multiprocessors, which stream j"
    assert told(passed).endswith("; 2 of 3 compiled refused: 1 spill, 1 over shared memory")
    assert passed.record is not None and passed.record.told.next_us > 0 < passed.record.time_us
    assert passed.schedule != plain.schedule


def test_the_same_schedule_shows_the_same_time_whoever_chose_it() -> None:
    free = made(Compiler())
    locked = made(Compiler(), replace(OPTIONS, lock=lock_of(free), locked=True))
    assert free.time is not None and locked.time == free.time and free.time.value_us > 3
    assert locked.record == free.record and told(locked) == "by rule, says the lock"


def test_what_takes_over_from_a_lock_is_told_as_what_it_is() -> None:
    lock = lock_of(made(Compiler()))
    unlocked = made(Compiler(Refused("spills", "")), replace(OPTIONS, lock=lock))
    assert told(unlocked).startswith("by rule: ") and "1 of 2 compiled refused: 1 spill" in told(unlocked)


def test_only_what_has_a_kernel_must_be_in_the_lock() -> None:
    locked = replace(OPTIONS, lock=TuningLock.make(TARGET, {}), locked=True)
    nothing = made(Compiler(*[Refused("no-float8", "")] * 20), locked)
    assert nothing.reason is not None and nothing.reason.code == "no-float8"
    with pytest.raises(LockMissError, match="no schedule for kernel_0"):
        made(Compiler(), locked)


def test_locks_pin_lone_products_each_by_its_name() -> None:
    rows = softmax(64, 128, "float16")  # which cascade it is makes no difference
    compiler: Any = Compiler()
    free = ProductMaker(OPTIONS, compiler, Silent())
    for name in ("product_0", "product_1"):
        assert free(rows, name) is not None
    records = {name: outcome.record for name, outcome in free.made.items() if outcome.record is not None}
    lock = TuningLock.make(TARGET, records)
    options = replace(OPTIONS, lock=lock, locked=True, tune_seconds=60)
    again = ProductMaker(options, compiler, Silent())
    for name in ("product_1", "product_0"):
        assert again(rows, name) is not None
    assert {name: outcome.record for name, outcome in again.made.items()} == records
    with pytest.raises(LockMissError, match="product_2"):
        again(softmax(64, 64, "float16"), "product_2")
