"""Recurrent layers: a step after another, in each the units shared out between threads. Imports TVM: import it lazily.

Weights are packed by units, so that a task reads its own in order while it sums up some rows of the batch, all gates of
a few vectors of units, in registers. What a row's hidden state becomes is written beside what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx import PrimExpr

from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.recurrent.tile import choose_tile
from redfuser.codegen.cpu.values.builder import Builder, matched
from redfuser.codegen.cpu.values.functions import Functions
from redfuser.codegen.cpu.values.vectors import like, multiply_add
from redfuser.recurrent.cells import Cell
from redfuser.recurrent.recurrence import LANES, Recurrence

#: A step with fewer multiplications isn't worth starting threads for.
LEAST_PRODUCTS = 1 << 16

#: Loops over what is known on the call only count up to this.
MOST = 1 << 40


def write_recurrence(recurrence: Recurrence, function: tirx.PrimFunc, machine: Machine) -> tirx.PrimFunc:
    """The function of a recurrence with a schedule.

    Args:
        function: :func:`redfuser.recurrent.plain.plain` of it, whose parameters are kept.
    """
    parameters = [function.buffer_map[p] for p in function.params]
    attributes = {"s_tir": True, "tirx.noalias": True, "tirx.is_scheduled": True}
    body = _Writer(recurrence, parameters, machine).write()
    return tirx.PrimFunc(parameters, body).with_attrs(attributes)


class _Vectors:
    """Neighbouring units at once; see :class:`redfuser.recurrent.cells.Arithmetic`."""

    def __init__(self, builder: Builder, machine: Machine) -> None:
        self.keep = builder.bind
        self.apply = Functions(builder, machine).apply
        self.constant = like


class _Writer:
    def __init__(self, recurrence: Recurrence, parameters: Sequence[tirx.Buffer], machine: Machine) -> None:
        self.recurrence = recurrence
        self.lanes = machine.lanes
        self.builder = Builder("int64")
        self.cell = Cell(recurrence, _Vectors(self.builder, machine))
        self.steps, self.batch, _ = parameters[0].shape
        self.tile = choose_tile(recurrence, machine, int(self.batch) if _known(self.batch) else None)
        self.arrays = {buffer.name: self._flat(buffer) for buffer in parameters}
        two_phases = len(recurrence.phases) > 1
        self.hidden = self._workspace("hidden", 2)
        self.gates: Any = self._workspace("update_and_reset", 2) if two_phases else None

    def _flat(self, buffer: tirx.Buffer) -> tirx.Buffer:
        size = self.builder.number(1)
        for extent in buffer.shape:
            size = size * extent
        view = tirx.decl_buffer([size], buffer.dtype, f"{buffer.name}_flat", data=buffer.data)
        self.builder.emit(tirx.DeclBuffer(view))
        return view

    def _workspace(self, name: str, count: int) -> tirx.Buffer:
        """So many values of every unit of every row."""
        size = self.builder.number(count * self.recurrence.units) * self.batch
        buffer = tirx.decl_buffer([size], self.recurrence.dtype, name, scope="local", data_alignment=64)
        self.builder.emit(tirx.AllocBuffer(buffer))
        return buffer

    def write(self) -> tirx.Stmt:
        rows, units = self.batch, self.recurrence.units
        with self._loop("value", rows * (units // LANES)) as value:
            self._copy(self.arrays["start"], value * LANES, self.hidden, value * LANES)
            if self.recurrence.states > 1:
                place = (rows * (units // LANES) + value) * LANES
                self._copy(self.arrays["start"], place, self.arrays["last"], place)
        with self._loop("step", self.steps) as step:
            for phase in range(len(self.recurrence.phases)):
                self._phase(phase, step)
        self._finish()
        return self.builder.body()

    def _copy(self, source: tirx.Buffer, place: PrimExpr, target: tirx.Buffer, where: PrimExpr) -> None:
        self.builder.store(target, tirx.Ramp(where, 1, LANES), source[tirx.Ramp(place, 1, LANES)])

    def _finish(self) -> None:
        """The last hidden states; a memory is where it belongs already."""
        last, units = self.arrays["last"], self.recurrence.units
        with self._loop("row", self.batch) as row, self._loop("value", units // LANES) as value:
            where = row * units + value * LANES
            self._copy(self.hidden, self._hidden_row(self.steps, row) + value * LANES, last, where)
            if self.recurrence.ragged:
                with self.builder.when(self.arrays["lengths"][row] <= 0):
                    for state in range(self.recurrence.states):
                        place = tirx.Ramp(where + self.batch * (state * units), 1, LANES)
                        self.builder.store(last, place, tirx.const(0, self.recurrence.dtype))

    def _phase(self, phase: int, step: PrimExpr) -> None:
        """Part of a step: all rows of some units a task."""
        tasks = self.recurrence.units // (self.tile.vectors * self.lanes)
        products = len(self.recurrence.phases[phase]) * self.recurrence.hidden * self.recurrence.units
        many = products * (int(self.batch) if _known(self.batch) else 1) >= LEAST_PRODUCTS
        height = self.tile.rows
        with self._loop("task", tasks, "parallel" if many else "serial") as task:
            first = task * (self.tile.vectors * self.lanes)
            if _known(self.batch):
                whole, rest = divmod(int(self.batch), height)
                with self._loop("rows", whole) as rows:
                    self._rows(phase, step, first, rows * height, height)
                if rest:
                    self._rows(phase, step, first, self.builder.number(whole * height), rest)
                return
            whole = tirx.floordiv(self.batch, height)
            with self._loop("rows", whole) as rows:
                self._rows(phase, step, first, rows * height, height)
            with self._loop("row", self.batch - whole * height) as row:
                self._rows(phase, step, first, whole * height + row, 1)

    def _rows(self, phase: int, step: PrimExpr, first: PrimExpr, row: PrimExpr, height: int) -> None:
        """Sums of some rows, and what becomes of them."""
        gates, vectors = self.recurrence.phases[phase], self.tile.vectors
        kept = self.builder.allocate("kept", height * vectors * len(gates) * self.lanes, self.recurrence.dtype)
        self._sum_up(phase, step, first, row, height, kept)
        with self._loop("r", height) as r, self._loop("v", vectors) as v:
            place = (r * vectors + v) * len(gates)
            sums = [kept[self._ramp((place + number) * self.lanes)] for number in range(len(gates))]
            self._unit(phase, step, row + r, first + v * self.lanes, sums)

    def _sum_up(
        self, phase: int, step: PrimExpr, first: PrimExpr, row: PrimExpr, height: int, kept: tirx.Buffer
    ) -> None:
        """Products of the hidden state, or of what was reset of it, with the recurrent weights."""
        gates, recurrence, weights = self.recurrence.phases[phase], self.recurrence, self.arrays["weights"]
        sums = {
            (r, v, gate): self.builder.allocate("sum", self.lanes, recurrence.dtype)
            for r in range(height)
            for v in range(self.tile.vectors)
            for gate in gates
        }
        for array in sums.values():
            self.builder.store(array, self._ramp(0), tirx.const(0, recurrence.dtype))
        with self._loop("k", recurrence.hidden) as k:
            factors = [
                self.builder.bind("factor", matched(self._source(phase, step, row + r, k), self.lanes))
                for r in range(height)
            ]
            for v in range(self.tile.vectors):
                unit = first + v * self.lanes
                group = tirx.floordiv(unit, LANES) * recurrence.hidden + k
                for gate in gates:
                    place = (group * recurrence.gates + gate) * LANES + tirx.floormod(unit, LANES)
                    weight = self.builder.bind("weight", weights[self._ramp(place)])
                    for r, factor in enumerate(factors):
                        total = sums[r, v, gate]
                        added = multiply_add(factor, weight, total[self._ramp(0)])
                        self.builder.store(total, self._ramp(0), added)
        for number, array in enumerate(sums.values()):
            self.builder.store(kept, self._ramp(number * self.lanes), array[self._ramp(0)])

    def _source(self, phase: int, step: PrimExpr, row: PrimExpr, k: PrimExpr) -> PrimExpr:
        if phase:
            return self.gates[self._gate_row(1, row) + k]
        return self.hidden[self._hidden_row(step, row) + k]

    def _unit(self, phase: int, step: PrimExpr, row: PrimExpr, unit: PrimExpr, sums: Sequence[PrimExpr]) -> None:
        """What becomes of some units of a row."""
        recurrence, cell, units = self.recurrence, self.cell, self.recurrence.units
        within, place = self._place(step, row)
        start = (place * self.batch + row) * (recurrence.gates * units) + unit
        given = [self.arrays["projected"][self._ramp(start + gate * units)] for gate in recurrence.phases[phase]]
        before = self.builder.bind("before", self.hidden[self._ramp(self._hidden_row(step, row) + unit)])
        if len(recurrence.phases) > 1 and phase == 0:
            for number, (total, x) in enumerate(zip(sums, given, strict=True)):
                value = cell.gate(total + x)
                value = value * before if number else value
                self.builder.store(self.gates, self._ramp(self._gate_row(number, row) + unit), value)
            return
        if recurrence.kind == "GRU":
            update, total = self._of_gru(row, unit, sums, given)
            hidden = cell.gru(update, total, before)
        elif recurrence.kind == "RNN":
            hidden = cell.rnn(sums[0] + given[0])
        else:
            where = self._ramp((self.batch + row) * units + unit)
            totals = [self.builder.bind("total", each + x) for each, x in zip(sums, given, strict=True)]
            peepholes = self._vectors(unit, 3) if recurrence.peepholes else []
            known = self.builder.bind("known", self.arrays["last"][where])
            hidden, memory = cell.lstm(totals, known, peepholes)
            self.builder.store(self.arrays["last"], where, _choose(within, memory, known))
        hidden = self.builder.bind("hidden", hidden)
        after = self._ramp(self._hidden_row(step + 1, row) + unit)
        self.builder.store(self.hidden, after, _choose(within, hidden, before))
        self.builder.store(
            self.arrays["results"], self._result(place, row, unit), _choose(within, hidden, like(0, hidden))
        )

    def _place(self, step: PrimExpr, row: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
        """Whether a row's sequence has this step, None where all have; the element: behind the sequence, the step's."""
        if not self.recurrence.ragged:
            return None, self.steps - 1 - step if self.recurrence.reverse else step
        length = self.arrays["lengths"][row].astype("int64")
        within = step < length
        return within, tirx.Select(within, length - 1 - step, step) if self.recurrence.reverse else step

    def _of_gru(
        self, row: PrimExpr, unit: PrimExpr, sums: Sequence[PrimExpr], given: Sequence[PrimExpr]
    ) -> tuple[PrimExpr, PrimExpr]:
        """The update gate, and the hidden gate's sum with what is reset."""
        if self.gates is not None:
            return self.gates[self._ramp(self._gate_row(0, row) + unit)], sums[0] + given[0]
        (bias,) = self._vectors(unit, 1)
        update, reset = (self.cell.gate(each + x) for each, x in zip(sums[:2], given[:2], strict=True))
        return update, given[2] + reset * (sums[2] + bias)

    def _vectors(self, unit: PrimExpr, count: int) -> list[PrimExpr]:
        return [self.arrays["vectors"][self._ramp(unit + k * self.recurrence.units)] for k in range(count)]

    def _hidden_row(self, step: PrimExpr, row: PrimExpr) -> PrimExpr:
        """Where a row's hidden state before a step begins."""
        return (tirx.floormod(step, 2) * self.batch + row) * self.recurrence.units

    def _gate_row(self, number: int, row: PrimExpr) -> PrimExpr:
        return (self.batch * number + row) * self.recurrence.units

    def _result(self, place: PrimExpr, row: PrimExpr, unit: PrimExpr) -> PrimExpr:
        return self._ramp((place * self.batch + row) * self.recurrence.units + unit)

    def _ramp(self, start: PrimExpr | int) -> PrimExpr:
        return tirx.Ramp(self.builder.number(start) if isinstance(start, int) else start, 1, self.lanes)

    @contextmanager
    def _loop(self, name: str, extent: Any, kind: str = "serial") -> Iterator[PrimExpr]:
        count = None if _known(extent) else extent
        with self.builder.loop(name, int(extent) if count is None else MOST, kind, count) as coordinate:
            yield self.builder.index(coordinate)


def _choose(condition: PrimExpr | None, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
    """One of two vectors; the first if there is no condition."""
    return yes if condition is None else tirx.Select(condition, yes, no)


def _known(extent: Any) -> bool:
    return isinstance(extent, int | tirx.IntImm)
