"""One direction of an LSTM, GRU or RNN layer, after the products with its inputs. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from redfuser.records import decode, encode, parse, to_text

#: Units whose weights lie side by side: a whole number of vectors on every processor.
LANES = 16

#: Attribute of a PrimFunc that computes a recurrence: the recurrence as JSON.
ATTRIBUTE = "redfuser.recurrence"

Kind = Literal["LSTM", "GRU", "RNN"]

#: How many sums each unit takes in every step. In ONNX's order: input, output, forget, cell; update, reset, hidden.
GATES: Mapping[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class Activation:
    """An activation function by its ONNX name, in lower case; what alpha and beta are is up to the function."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Recurrence:
    """What one direction of a layer computes from its inputs' products, step after step.

    Its PrimFunc takes, in this order (``units`` is ``hidden`` rounded up to whole :data:`LANES`; what the additional
    units hold is never used):

    * ``projected`` (steps, batch, gates · units): products of the inputs, with the biases that may be added before;
    * ``weights`` (units / LANES, hidden, gates, LANES): the recurrent ones, packed by units;
    * ``start`` (states, batch, units): the hidden state, and an LSTM's memory;
    * ``vectors`` (n, units), if ``peepholes``: an LSTM's weights i, o, f; or if ``reset_after``: the recurrent bias;
    * ``lengths`` (batch) of int32, if ``ragged``;

    and writes ``results`` (steps, batch, units) and ``last`` (states, batch, units). Of a sequence without elements the
    last states are zero, as in ONNX Runtime; ONNX doesn't say.

    Args:
        kind: of the layer.
        hidden: units.
        dtype: of all values, ``float32`` or ``float64``.
        activations: f, g and h of an LSTM, f and g of a GRU, f of an RNN.
        reverse: start with the last element of each sequence.
        clip: bound of the sums that activations are applied to; None for none.
        coupled: an LSTM's forget gate is what the input gate leaves.
        peepholes: an LSTM's gates see its memory.
        reset_after: a GRU's reset gate is applied to the product with the hidden state (``linear_before_reset``).
        ragged: sequences have lengths of their own.
    """

    kind: Kind
    hidden: int
    dtype: str
    activations: tuple[Activation, ...]
    reverse: bool = False
    clip: float | None = None
    coupled: bool = False
    peepholes: bool = False
    reset_after: bool = False
    ragged: bool = False

    @property
    def gates(self) -> int:
        """Sums of each unit."""
        return GATES[self.kind]

    @property
    def units(self) -> int:
        """``hidden``, rounded up."""
        return -(-self.hidden // LANES) * LANES

    @property
    def states(self) -> int:
        """What is carried from step to step: two values a unit in an LSTM, otherwise one."""
        return 2 if self.kind == "LSTM" else 1

    @property
    def phases(self) -> tuple[range, ...]:
        """The gates of each part of a step that waits for the part before.

        A GRU whose reset gate comes before the product multiplies a second time: the hidden state as it was reset.
        """
        if self.kind == "GRU" and not self.reset_after:
            return range(2), range(2, 3)
        return (range(self.gates),)

    def shapes(self, steps: Any, batch: Any) -> dict[str, tuple[Any, ...]]:
        """Shape of each parameter of its PrimFunc, by name; the last two are written."""
        vectors = {"vectors": (3 if self.peepholes else 1, self.units)} if self.peepholes or self.reset_after else {}
        lengths = {"lengths": (batch,)} if self.ragged else {}
        return {
            "projected": (steps, batch, self.gates * self.units),
            "weights": (self.units // LANES, self.hidden, self.gates, LANES),
            "start": (self.states, batch, self.units),
            **vectors,
            **lengths,
            "results": (steps, batch, self.units),
            "last": (self.states, batch, self.units),
        }

    def dtype_of(self, parameter: str) -> str:
        """Element type of a parameter."""
        return "int32" if parameter == "lengths" else self.dtype

    def to_text(self) -> str:
        """As JSON, for :data:`ATTRIBUTE`."""
        return to_text(encode(self))


def recurrence_of(function: Any) -> Recurrence | None:
    """The recurrence that a PrimFunc computes; None for any other."""
    noted = function.attrs.get(ATTRIBUTE) if function.attrs is not None else None
    return None if noted is None else decode(Recurrence, parse(str(noted)))
