"""A recurrence as a PrimFunc that says what it computes, for any target. Imports TVM: import it lazily.

Rows of the batch are independent: the loop over them is outside, that over the steps within. Back ends write their
own for the recurrence that it is marked with, or turn the loops that are marked here into threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as I

from redfuser.recurrent.cells import Cell
from redfuser.recurrent.recurrence import ATTRIBUTE, LANES, Recurrence

#: Annotation of the loops over rows and over units, and its values.
LOOP, ROWS, UNITS = "redfuser.loop", "rows", "units"


def plain(recurrence: Recurrence, steps: Any, batch: Any) -> tirx.PrimFunc:
    """The function of a recurrence.

    Args:
        steps, batch: extents: integers, or expressions where they are known on the call only.
    """
    extents = [
        _number(n) if isinstance(n, int) else tirx.Var(name, "int64") for n, name in ((steps, "n"), (batch, "b"))
    ]
    with IRBuilder() as builder:
        with I.prim_func(is_private=True, s_tir=True):
            I.func_attr({"tirx.noalias": True, "op_pattern": 8, ATTRIBUTE: recurrence.to_text()})
            parameters = {
                name: I.arg(name, I.buffer(shape, recurrence.dtype_of(name)))
                for name, shape in recurrence.shapes(*extents).items()
            }
            _Writer(recurrence, parameters, *extents).write()
        return builder.get()


class _Scalars:
    """One unit at a time; see :class:`redfuser.recurrent.cells.Arithmetic`."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def apply(self, name: str, x: tirx.PrimExpr) -> tirx.PrimExpr:
        return getattr(tirx, name)(x)

    def keep(self, name: str, value: tirx.PrimExpr) -> tirx.PrimExpr:
        kept = I.sblock_alloc_buffer((1,), self.dtype, scope="local")
        I.buffer_store(kept, value, [_number(0)])
        return kept[_number(0)]

    def constant(self, value: float, like: tirx.PrimExpr) -> tirx.PrimExpr:
        return tirx.const(value, self.dtype)


class _Writer:
    def __init__(self, recurrence: Recurrence, parameters: Mapping[str, Any], steps: Any, batch: Any) -> None:
        self.recurrence = recurrence
        self.parameters = parameters
        self.steps = steps
        self.batch = batch
        self.cell = Cell(recurrence, _Scalars(recurrence.dtype))
        units = recurrence.units
        self.sums = I.sblock_alloc_buffer((recurrence.gates,), recurrence.dtype, scope="local")
        # What every unit reads of the others: the hidden state, before and after a step, and what is reset of it.
        self.hidden = I.sblock_alloc_buffer((2, units), recurrence.dtype)
        two_phases = len(recurrence.phases) > 1
        self.reset: Any = I.sblock_alloc_buffer((units,), recurrence.dtype) if two_phases else None
        self.update: Any = I.sblock_alloc_buffer((units,), recurrence.dtype) if two_phases else None
        self.memory: Any = I.sblock_alloc_buffer((units,), recurrence.dtype) if recurrence.states > 1 else None

    def write(self) -> None:
        start, last = self.parameters["start"], self.parameters["last"]
        with _loop(self.batch, ROWS) as row:
            with self._units() as unit:
                I.buffer_store(self.hidden, start[0, row, unit], [_number(0), unit])
                if self.memory is not None:
                    I.buffer_store(self.memory, start[1, row, unit], [unit])
            with _loop(self.steps) as step:
                self._step(row, step)
            with self._units() as unit:
                I.buffer_store(last, self._last(row, self.hidden[self.steps % 2, unit]), [_number(0), row, unit])
                if self.memory is not None:
                    I.buffer_store(last, self._last(row, self.memory[unit]), [_number(1), row, unit])

    def _last(self, row: Any, state: Any) -> tirx.PrimExpr:
        has_elements = self.parameters["lengths"][row] > 0 if self.recurrence.ragged else None
        return _choose(has_elements, state, tirx.const(0, self.recurrence.dtype))

    def _step(self, row: Any, step: Any) -> None:
        within, place = self._place(row, step)
        if self.reset is not None:
            with self._units() as unit:
                update, reset = self._sums(0, row, place, unit, self.hidden, [step % 2])
                I.buffer_store(self.update, self.cell.gate(update), [unit])
                I.buffer_store(self.reset, self.cell.gate(reset) * self.hidden[step % 2, unit], [unit])
        results, after = self.parameters["results"], (step + 1) % 2
        with self._units() as unit:
            hidden, memory = self._unit(row, step, place, unit)
            hidden = self.cell.arithmetic.keep("hidden", hidden)
            if memory is not None:
                I.buffer_store(self.memory, _choose(within, memory, self.memory[unit]), [unit])
            I.buffer_store(self.hidden, _choose(within, hidden, self.hidden[step % 2, unit]), [after, unit])
            I.buffer_store(results, _choose(within, hidden, tirx.const(0, self.recurrence.dtype)), [place, row, unit])

    def _place(self, row: Any, step: Any) -> tuple[Any, Any]:
        """Whether a row's sequence has this step, None where all have; the element: behind the sequence, the step's."""
        if not self.recurrence.ragged:
            return None, self.steps - 1 - step if self.recurrence.reverse else step
        length = self.parameters["lengths"][row].astype("int64")
        within = step < length
        return within, tirx.Select(within, length - 1 - step, step) if self.recurrence.reverse else step

    def _unit(self, row: Any, step: Any, place: Any, unit: Any) -> tuple[Any, Any]:
        """A unit's new hidden state and memory."""
        before, vectors = self.hidden[step % 2, unit], self.parameters.get("vectors", [])
        if self.reset is not None:
            (total,) = self._sums(1, row, place, unit, self.reset, [])
            return self.cell.gru(self.update[unit], total, before), None
        sums = self._sums(0, row, place, unit, self.hidden, [step % 2])
        if self.recurrence.kind == "RNN":
            return self.cell.rnn(*sums), None
        if self.recurrence.kind == "GRU":
            update, reset, new = sums
            total = new + self.cell.gate(reset) * (self.sums[2] + vectors[0, unit])
            return self.cell.gru(self.cell.gate(update), total, before), None
        peepholes = [vectors[k, unit] for k in range(3)] if self.recurrence.peepholes else []
        return self.cell.lstm(sums, self.memory[unit], peepholes)

    def _sums(self, phase: int, row: Any, place: Any, unit: Any, source: Any, where: list[Any]) -> list[tirx.PrimExpr]:
        """The sums of some gates: products with the source added to those with the inputs.

        Where a GRU resets afterwards, its hidden gate's has the inputs' products alone.
        """
        gates, units = self.recurrence.phases[phase], self.recurrence.units
        for gate in gates:
            I.buffer_store(self.sums, tirx.const(0, self.recurrence.dtype), [_number(gate)])
        with _loop(_number(self.recurrence.hidden)) as k:
            for gate in gates:
                weight = self.parameters["weights"][unit // LANES, k, gate, unit % LANES]
                I.buffer_store(self.sums, self.sums[gate] + source[(*where, k)] * weight, [_number(gate)])
        given = [self.parameters["projected"][place, row, gate * units + unit] for gate in gates]
        apart = 2 if self.recurrence.reset_after else None
        return [x if gate == apart else x + self.sums[gate] for gate, x in zip(gates, given, strict=True)]

    def _units(self) -> AbstractContextManager[Any]:
        return _loop(_number(self.recurrence.units), UNITS)


def _choose(condition: tirx.PrimExpr | None, yes: tirx.PrimExpr, no: tirx.PrimExpr) -> tirx.PrimExpr:
    """One of two values; the first if there is no condition. No branch: threads of a block wait for each other."""
    return yes if condition is None else tirx.Select(condition, yes, no)


def _loop(extent: Any, what: str = "") -> Any:
    return I.serial(_number(0), extent, annotations={LOOP: what} if what else None)


def _number(value: int) -> tirx.PrimExpr:
    return tirx.IntImm("int64", value)
