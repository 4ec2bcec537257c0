"""A kernel against the same part of the model unfused: fusing may not pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING

from redfuser.codegen.backend import Placement
from redfuser.codegen.backends import backend_for
from redfuser.codegen.refusal import FAILURES
from redfuser.options import CompileOptions
from redfuser.tile.ir import TileProgram
from redfuser.tuning.search import FINAL, LEAST_SITTINGS
from redfuser.tuning.timing.job import Plan, Timing
from redfuser.tuning.timing.runner import Runner

if TYPE_CHECKING:
    from redfuser.codegen.excerpt import Excerpt
    from redfuser.tuning.timing.builder import Builder


def gain(
    part: Excerpt,
    program: TileProgram,
    options: CompileOptions,
    builder: Builder,
    runner: Runner,
    note: Callable[[str], None],
) -> float:
    """How many times longer the part takes unfused, both as modules that take turns; 0 where that can't be told.

    Args:
        part: of the model, which the program computes.
        note: is told why it can't be told.
    """
    backend = backend_for(options.target)
    try:
        kernel = backend.generate(program, options.seed)
        fused = backend.assemble(part.module, [Placement(kernel, part.given, part.wanted)])
        jobs = [builder.write(part, assembly) for assembly in (fused, backend.assemble(part.module, []))]
    except FAILURES as failure:
        note(f"not compared with the unfused graph: {failure}")
        return 0.0
    turns: list[list[float]] = [[] for _ in jobs]
    for _ in range(LEAST_SITTINGS):
        runner.close()
        results = runner.run(jobs, Plan(FINAL.rounds, FINAL.milliseconds, options.seed))
        for taken, result in zip(turns, results, strict=True):
            if not isinstance(result, Timing):
                note(f"not compared with the unfused graph: {', '.join(map(str, results))}")
                return 0.0
            taken += result.seconds
    return ratio_of_turns(*turns)


def ratio_of_turns(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of theirs over ours, turn by turn; 1 where the middle half of the turns lies on both sides of 1."""
    low, middle, high = quantiles((b / a for a, b in zip(ours, theirs, strict=True)), n=4)
    return 1.0 if low < 1 < high else round(middle, 3)
