"""What a unit of a recurrent layer makes of its sums, by ONNX's formulas. Imports TVM lazily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from redfuser.recurrent.recurrence import Activation, Recurrence

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


class Arithmetic(Protocol):
    """How values are computed: scalars, or vectors of neighbouring units."""

    def apply(self, name: str, x: PrimExpr) -> PrimExpr:
        """``exp``, ``log``, ``tanh``, ``sigmoid`` or ``abs`` of a value."""

    def keep(self, name: str, value: PrimExpr) -> PrimExpr:
        """A value that is used more than once."""

    def constant(self, value: float, like: PrimExpr) -> PrimExpr:
        """A constant as wide as another value."""


class Cell:
    """The formulas of one recurrence.

    Args:
        recurrence: which.
        arithmetic: how values are computed.
    """

    def __init__(self, recurrence: Recurrence, arithmetic: Arithmetic) -> None:
        self.recurrence = recurrence
        self.arithmetic = arithmetic

    def lstm(
        self, sums: Sequence[PrimExpr], memory: PrimExpr, peepholes: Sequence[PrimExpr]
    ) -> tuple[PrimExpr, PrimExpr]:
        """The new hidden state and memory.

        Args:
            sums: of the gates input, output, forget and cell, biases included.
            memory: as it was.
            peepholes: weights of the gates input, output and forget, if there are any.
        """
        f, g, h = self.recurrence.activations
        entry, exit_, forget, new = sums
        if peepholes:
            entry, forget = entry + peepholes[0] * memory, forget + peepholes[2] * memory
        entry = self.arithmetic.keep("entry", self._activate(f, entry))
        one = self.arithmetic.constant(1.0, memory)
        forget = one - entry if self.recurrence.coupled else self._activate(f, forget)
        memory = self.arithmetic.keep("memory", forget * memory + entry * self._activate(g, new))
        if peepholes:
            exit_ = exit_ + peepholes[1] * memory
        # As every runtime does it, the memory isn't clipped.
        return self._activate(f, exit_) * self._function(h, memory), memory

    def rnn(self, total: PrimExpr) -> PrimExpr:
        """The new hidden state."""
        return self._activate(self.recurrence.activations[0], total)

    def gate(self, total: PrimExpr) -> PrimExpr:
        """A GRU's update or reset gate."""
        return self._activate(self.recurrence.activations[0], total)

    def gru(self, update: PrimExpr, total: PrimExpr, hidden: PrimExpr) -> PrimExpr:
        """The new hidden state.

        Args:
            update: the gate's value.
            total: sum of the hidden gate, reset already.
            hidden: as it was.
        """
        update = self.arithmetic.keep("update", update)
        new = self._activate(self.recurrence.activations[1], total)
        return (self.arithmetic.constant(1.0, update) - update) * new + update * hidden

    def _activate(self, activation: Activation, x: PrimExpr) -> PrimExpr:
        if self.recurrence.clip is not None:
            x = self._between(-self.recurrence.clip, self.recurrence.clip, x)
        return self._function(activation, self.arithmetic.keep("x", x))

    def _between(self, low: float, high: float, x: PrimExpr) -> PrimExpr:
        """``x`` within bounds. Compared so that a NaN stays."""
        from tvm.tirx import Select

        bottom, top = self.arithmetic.constant(low, x), self.arithmetic.constant(high, x)
        x = self.arithmetic.keep("x", x)
        x = self.arithmetic.keep("x", Select(x < bottom, bottom, x))
        return Select(x > top, top, x)

    def _function(self, activation: Activation, x: PrimExpr) -> PrimExpr:
        from tvm.tirx import Select

        apply = self.arithmetic.apply
        zero, one = (self.arithmetic.constant(value, x) for value in (0.0, 1.0))
        alpha, beta = (self.arithmetic.constant(value, x) for value in (activation.alpha, activation.beta))
        match activation.name:
            case "sigmoid" | "tanh":
                return apply(activation.name, x)
            case "relu":
                return Select(x < zero, zero, x)
            case "affine":
                return alpha * x + beta
            case "leakyrelu":
                return Select(x < zero, alpha * x, x)
            case "thresholdedrelu":
                return Select(x <= alpha, zero, x)
            case "scaledtanh":
                return alpha * apply("tanh", beta * x)
            case "hardsigmoid":
                return self._between(0.0, 1.0, alpha * x + beta)
            case "elu":
                return Select(x < zero, alpha * (apply("exp", x) - one), x)
            case "softsign":
                return x / (one + apply("abs", x))
            case "softplus":  # what is added to the positive part never overflows
                return Select(x < zero, zero, x) + apply("log", one + apply("exp", zero - apply("abs", x)))
        raise ValueError(f"activation {activation.name}")
