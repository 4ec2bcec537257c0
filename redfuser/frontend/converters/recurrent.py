"""LSTM, GRU and RNN: one product with the inputs of all steps, then a loop over them in a PrimFunc of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters import folded
from redfuser.frontend.converters.common import (
    Attributes,
    Converter,
    Inputs,
    cast,
    dtype_of,
    extents_of,
    optional,
    static_extents,
)
from redfuser.recurrent.plain import plain
from redfuser.recurrent.recurrence import LANES, Activation, Kind, Recurrence

#: An activation by its ONNX name, in lower case -> which of alpha and beta it takes, and what they are by default:
#: as in the operator of that name, None where there is none any more.
ACTIVATIONS: dict[str, dict[str, float | None]] = {
    "affine": {"alpha": None, "beta": None},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "relu": {},
    "scaledtanh": {"alpha": None, "beta": None},
    "sigmoid": {},
    "softplus": {},
    "softsign": {},
    "tanh": {},
    "thresholdedrelu": {"alpha": 1.0},
}

#: Activations of one direction where none are given.
DEFAULTS: dict[Kind, tuple[str, ...]] = {
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}

#: Whether each direction goes through sequences from the end.
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def convert_recurrent(kind: Kind) -> Converter:
    """The converter of ``LSTM``, ``GRU`` or ``RNN``.

    It raises ValueError for a direction or an activation that ONNX doesn't know, and where units or inputs are a
    symbolic dimension.
    """

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
        return _Layer(bb, kind, inputs, attributes).convert()

    return convert


@dataclass(frozen=True)
class _Weights:
    """Weights of one direction, in ONNX's layout; the first dimension is gone."""

    inputs: relax.Expr
    recurrent: relax.Expr
    bias: relax.Expr | None
    peepholes: relax.Expr | None


class _Layer:
    def __init__(self, bb: relax.BlockBuilder, kind: Kind, inputs: Inputs, attributes: Attributes) -> None:
        self.bb = bb
        self.kind: Kind = kind
        self.attributes = attributes
        self.directions = DIRECTIONS.get(_text(attributes.get("direction", b"forward")), ())
        if not self.directions:
            raise ValueError(f"the direction {_text(attributes['direction'])} is unknown")
        self.x, self.weights, self.recurrent, self.bias, self.lengths = (optional(inputs, k) for k in range(5))
        self.start = [optional(inputs, 5), optional(inputs, 6) if kind == "LSTM" else None]
        self.peepholes = optional(inputs, 7) if kind == "LSTM" else None
        self.batch_first = bool(attributes.get("layout", 0))
        if self.batch_first:
            self.x = bb.emit(R.permute_dims(self.x, [1, 0, 2]))
            self.start = [None if s is None else bb.emit(R.permute_dims(s, [1, 0, 2])) for s in self.start]
        self.steps, self.batch, _ = extents_of(self.x)
        _, _, self.hidden = static_extents(extents_of(self.recurrent))
        static_extents(extents_of(self.weights))

    def convert(self) -> Sequence[relax.Expr]:
        """The outputs: all hidden states, the last one, and an LSTM's last memory."""
        activations = self._activations()
        parts = [self._direction(k, reverse, activations[k]) for k, reverse in enumerate(self.directions)]
        results = self._joined([results for results, _ in parts])
        states = [self._joined([last[k] for _, last in parts]) for k in range(len(parts[0][1]))]
        if not self.batch_first:
            return [results, *states]
        return [R.permute_dims(results, [2, 0, 1, 3]), *(R.permute_dims(state, [1, 0, 2]) for state in states)]

    def _direction(
        self, place: int, reverse: bool, activations: tuple[Activation, ...]
    ) -> tuple[relax.Expr, list[relax.Expr]]:
        """Hidden states ``(steps, 1, batch, hidden)`` and last states ``(1, batch, hidden)`` of one direction."""
        recurrence = Recurrence(
            self.kind,
            self.hidden,
            dtype_of(self.x),
            activations,
            reverse,
            float(self.attributes["clip"]) if self.attributes.get("clip") else None,
            bool(self.attributes.get("input_forget", 0)),
            self.peepholes is not None,
            self.kind == "GRU" and bool(self.attributes.get("linear_before_reset", 0)),
            self.lengths is not None,
        )
        arguments = list(self._arguments(place, recurrence))
        shapes = list(recurrence.shapes(self.steps, self.batch).values())[-2:]
        kernel = self.bb.add_func(plain(recurrence, self.steps, self.batch), f"recurrent_{self.kind.lower()}")
        kinds = [relax.TensorStructInfo(shape, recurrence.dtype) for shape in shapes]
        both = self.bb.emit(relax.call_tir(kernel, arguments, out_sinfo=kinds))
        results, last = (self._cut(self.bb.emit(relax.TupleGetItem(both, k))) for k in range(2))
        results = self.bb.emit(R.reshape(results, (self.steps, 1, self.batch, self.hidden)))
        return results, [folded.part(self.bb, last, 0, k, k + 1) for k in range(recurrence.states)]

    def _arguments(self, place: int, recurrence: Recurrence) -> Iterator[relax.Expr]:
        """What the recurrence's function takes; see :class:`Recurrence`."""
        bb, gates, units, hidden = self.bb, recurrence.gates, recurrence.units, self.hidden
        extra = units - hidden

        def by_gate(value: relax.Expr, count: int, *others: int) -> relax.Expr:
            """Rows of a direction's weights, by gate, with rows of zeros for the additional units."""
            one = folded.part(bb, value, 0, place, place + 1)
            return folded.padded(bb, folded.reshaped(bb, one, (count, hidden, *others)), 1, extra)

        depth = extents_of(self.weights)[-1]
        columns = folded.transposed(bb, by_gate(self.weights, gates, depth), (2, 0, 1))
        projected = bb.emit(R.matmul(self.x, folded.reshaped(bb, columns, (depth, gates * units))))
        late = None
        if self.bias is not None:
            both = by_gate(self.bias, 2 * gates)
            early, late = (folded.part(bb, both, 0, k * gates, (k + 1) * gates) for k in range(2))
            if recurrence.reset_after:
                kept, late = (folded.part(bb, late, 0, *ends) for ends in ((0, 2), (2, 3)))
                early = folded.added(bb, early, folded.padded(bb, kept, 0, 1))
            else:
                early = folded.added(bb, early, late)
            projected = bb.emit(R.add(projected, folded.reshaped(bb, early, (gates * units,))))
        yield projected
        packed = folded.reshaped(bb, by_gate(self.recurrent, gates, hidden), (gates, units // LANES, LANES, hidden))
        yield folded.transposed(bb, packed, (1, 3, 0, 2))
        yield self._started(place, recurrence)
        if recurrence.reset_after:
            yield folded.zeros(recurrence.dtype, (1, units)) if late is None else late
        elif self.peepholes is not None:
            yield by_gate(self.peepholes, 3)
        if self.lengths is not None:
            yield cast(bb, self.lengths, "int32")

    def _started(self, place: int, recurrence: Recurrence) -> relax.Expr:
        """States before the first step, zero where none are given."""
        if self.start == [None, None]:
            shape = relax.ShapeExpr((recurrence.states, self.batch, recurrence.units))
            return self.bb.emit(R.zeros(shape, recurrence.dtype))
        none = R.zeros(relax.ShapeExpr((1, self.batch, recurrence.units)), recurrence.dtype)
        parts = [
            self.bb.emit(none)
            if state is None
            else folded.padded(
                self.bb, folded.part(self.bb, state, 0, place, place + 1), 2, recurrence.units - self.hidden
            )
            for state in self.start[: recurrence.states]
        ]
        return parts[0] if len(parts) == 1 else self.bb.emit(R.concat(parts, 0))

    def _cut(self, value: relax.Expr) -> relax.Expr:
        """Without the additional units."""
        return folded.part(self.bb, value, 2, 0, self.hidden)

    def _joined(self, parts: Sequence[relax.Expr]) -> relax.Expr:
        """Directions next to each other: in the second dimension of hidden states, the first of last ones."""
        axis = 1 if len(extents_of(parts[0])) == 4 else 0
        return parts[0] if len(parts) == 1 else self.bb.emit(R.concat(list(parts), axis))

    def _activations(self) -> list[tuple[Activation, ...]]:
        """Of each direction; alpha and beta are given to those that take one, in their order."""
        names = [_text(name).lower() for name in self.attributes.get("activations", ())]
        names = names or [*DEFAULTS[self.kind]] * len(self.directions)
        count = len(DEFAULTS[self.kind])
        if len(names) != count * len(self.directions):
            raise ValueError(f"{len(names)} activations are given where there are {count * len(self.directions)}")
        given = {name: iter(self.attributes.get(f"activation_{name}", ())) for name in ("alpha", "beta")}
        found = []
        for name in names:
            if name not in ACTIVATIONS:
                raise ValueError(f"the activation {name} is unknown")
            taken = {key: next(given[key], default) for key, default in ACTIVATIONS[name].items()}
            known = {key: float(value) for key, value in taken.items() if value is not None}
            if missing := [f"activation_{key}" for key in taken if key not in known]:
                raise ValueError(f"the activation {name} has no {' and '.join(missing)}, on which runtimes disagree")
            found.append(Activation(name, **known))
        return [tuple(found[k : k + count]) for k in range(0, len(found), count)]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
