"""The text form of tile programs: stable, for goldens, dumps and people."""

from __future__ import annotations

from collections.abc import Iterator

from redfuser.tile.ir import Phase, Statement, Stream, TileProgram


def print_program(program: TileProgram) -> str:
    """One line for each declaration and statement, bodies indented by two spaces."""
    lines = [f"program {program.name} [{program.schedule.strategy}]"]
    lines += [f"  input {tensor}" for tensor in program.inputs]
    lines += [f"  output {tensor}" for tensor in program.outputs]
    lines += [f"  workspace {tensor}" for tensor in program.workspaces]
    for number, phase in enumerate(program.phases):
        lines.append(f"  phase {number} grid({', '.join(map(str, phase.grid))})")
        lines += _phase(phase)
    return "\n".join(lines)


def _phase(phase: Phase) -> Iterator[str]:
    for buffer in phase.buffers:
        yield f"    buffer {buffer}"
    yield from _body(phase.body, 4)


def _body(body: tuple[Statement, ...], indent: int) -> Iterator[str]:
    for statement in body:
        yield " " * indent + str(statement)
        if isinstance(statement, Stream):
            yield from _body(statement.body, indent + 2)
