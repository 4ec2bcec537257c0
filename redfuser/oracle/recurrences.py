"""LSTM, GRU and RNN in double precision by ONNX's formulas, for the float64 oracle; NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Function = Callable[[Array], Array]

#: Alpha and beta of the activations that take one or both, where they aren't given.
_DEFAULTS = {
    "affine": {"alpha": 1.0, "beta": 0.0},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
    "thresholdedrelu": {"alpha": 1.0},
}

_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


def recurrent(kind: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> tuple[Array, ...]:
    """The outputs of an LSTM, GRU or RNN.

    Args:
        inputs: in ONNX's order; None for one that is left out.
        attributes: in ONNX's names; None for one that is left out.
    """
    import numpy as np

    given: list[Any] = [*inputs, *[None] * (8 - len(inputs))]
    x, w, r, b, lengths, hidden, memory, peepholes = given
    first = bool(attributes.get("layout"))
    if first:
        x, hidden, memory = (None if v is None else v.swapaxes(0, 1) for v in (x, hidden, memory))
    steps, batch, _ = x.shape
    sizes = np.full(batch, steps) if lengths is None else lengths
    directions = {"reverse": (True,), "bidirectional": (False, True)}.get(attributes.get("direction") or "", (False,))
    functions = list(_functions(kind, len(directions), attributes))
    count = len(functions) // len(directions)
    parts = []
    for d, reverse in enumerate(directions):
        weights = [None if v is None else v[d] for v in (w, r, b, peepholes)]
        zero = np.zeros((batch, r.shape[2]))
        start = [zero if v is None else v[d].astype(np.float64) for v in (hidden, memory)]
        own = functions[d * count : (d + 1) * count]
        step = _STEPS[kind](weights, own, attributes)
        parts.append(_unroll(x, start, sizes, reverse, step))
    outputs = [np.stack([part[0] for part in parts], 1), *(np.stack([part[k] for part in parts]) for k in (1, 2))]
    if first:
        outputs = [outputs[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in outputs[1:])]
    return tuple(outputs if kind == "LSTM" else outputs[:2])


Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def _unroll(x: Array, start: Sequence[Array], lengths: Array, reverse: bool, step: Step) -> tuple[Array, Array, Array]:
    """Hidden states ``(steps, batch, hidden)``, zero behind each sequence, and what is last."""
    import numpy as np

    hidden, memory = (state.copy() for state in start)
    results = np.zeros((len(x), *hidden.shape))
    for n in range(len(x)):
        rows = np.flatnonzero(n < lengths)
        places = lengths[rows] - 1 - n if reverse else np.full(len(rows), n)
        hidden[rows], memory[rows] = step(x[places, rows], hidden[rows], memory[rows])
        results[places, rows] = hidden[rows]
    hidden[lengths == 0] = memory[lengths == 0] = 0  # as ONNX Runtime has it
    return results, hidden, memory


def _lstm(weights: Sequence[Any], functions: Sequence[Function], attributes: Mapping[str, Any]) -> Step:
    import numpy as np

    w, r, b, p = weights
    f, g, h = functions
    p_i, p_o, p_f = (0, 0, 0) if p is None else np.split(p, 3)

    def step(x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
        i, o, forget, c = np.split(x @ w.T + hidden @ r.T + _bias(b, 0) + _bias(b, 1), 4, 1)
        i = f(i + p_i * memory)
        forget = 1 - i if attributes.get("input_forget") else f(forget + p_f * memory)
        memory = forget * memory + i * g(c)
        return f(o + p_o * memory) * h(memory), memory  # clipped as runtimes do it: sums, not the memory

    return step


def _gru(weights: Sequence[Any], functions: Sequence[Function], attributes: Mapping[str, Any]) -> Step:
    import numpy as np

    w, r, b, _ = weights
    f, g = functions
    size = r.shape[1]

    def step(x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
        given = x @ w.T + _bias(b, 0)
        recurrent, bias = r[2 * size :].T, _bias(b, 1)
        both = f(given[:, : 2 * size] + hidden @ r[: 2 * size].T + (bias[: 2 * size] if np.ndim(bias) else 0))
        update, reset = np.split(both, 2, 1)
        bias = bias[2 * size :] if np.ndim(bias) else 0
        after = attributes.get("linear_before_reset")
        new = reset * (hidden @ recurrent + bias) if after else (reset * hidden) @ recurrent + bias
        return (1 - update) * g(given[:, 2 * size :] + new) + update * hidden, memory

    return step


def _rnn(weights: Sequence[Any], functions: Sequence[Function], attributes: Mapping[str, Any]) -> Step:
    w, r, b, _ = weights

    def step(x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
        return functions[0](x @ w.T + hidden @ r.T + _bias(b, 0) + _bias(b, 1)), memory

    return step


_STEPS: dict[str, Callable[..., Step]] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


def _bias(b: Array | None, half: int) -> Any:
    """The biases of the inputs, or the recurrent ones."""
    return 0.0 if b is None else b.reshape(2, -1)[half]


def _functions(kind: str, directions: int, attributes: Mapping[str, Any]) -> Iterator[Function]:
    """The activations of all directions; alpha and beta go to those that take one, in their order."""
    given = {key: iter(attributes.get(f"activation_{key}") or ()) for key in ("alpha", "beta")}
    for place, name in enumerate(attributes.get("activations") or _USUAL[kind] * directions):
        defaults = _DEFAULTS.get(name.lower(), {})
        function = _function(name.lower(), **{key: float(next(given[key], v)) for key, v in defaults.items()})
        of_memory = kind == "LSTM" and place % 3 == 2
        yield function if of_memory else _clipped(function, attributes.get("clip"))


def _clipped(function: Function, clip: float | None) -> Function:
    import numpy as np

    return (lambda x: function(np.clip(x, -clip, clip))) if clip else function


def _function(name: str, alpha: float = 0.0, beta: float = 0.0) -> Function:
    import numpy as np

    formulas: dict[str, Function] = {
        "affine": lambda x: alpha * x + beta,
        "elu": lambda x: np.where(x < 0, alpha * np.expm1(x), x),
        "hardsigmoid": lambda x: np.clip(alpha * x + beta, 0, 1),
        "leakyrelu": lambda x: np.where(x < 0, alpha * x, x),
        "relu": lambda x: np.maximum(x, 0),
        "scaledtanh": lambda x: alpha * np.tanh(beta * x),
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "softplus": lambda x: np.logaddexp(0, x),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "tanh": np.tanh,
        "thresholdedrelu": lambda x: np.where(x <= alpha, 0, x),
    }
    return formulas[name]
