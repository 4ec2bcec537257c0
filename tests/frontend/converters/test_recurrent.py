"""LSTM, GRU and RNN against ONNX's formulas in float64, which are held against ONNX Runtime where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.converters.checking import check
from tests.frontend.running import loaded, lower_and_run
from tests.recurrent.build import layer

KINDS = ("LSTM", "GRU", "RNN")
COUNTS = {"LSTM": 3, "GRU": 2, "RNN": 1}

#: Those with alpha or beta take what is given in this order.
ACTIVATIONS = (
    *("Relu", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh"),
    *("HardSigmoid", "Elu", "Softsign", "Softplus"),
)


def compare(*given: Any, runtime: bool = True, **attributes: Any) -> None:
    proto, feeds = layer(*given, **attributes)
    check(proto, feeds)
    if runtime:
        exact = run_float64(proto, feeds)
        for name, value in run_onnxruntime(proto, feeds, 1).items():
            np.testing.assert_allclose(value, exact[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [(), ("lengths",)])
def test_every_direction(kind: str, direction: str, lengths: tuple[str, ...]) -> None:
    compare(kind, 5, 3, 6, 20, ("bias", *lengths, "hidden"), direction=direction)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [7, 14, 22])
def test_every_operator_set_with_weights_that_are_inputs(kind: str, opset: int) -> None:
    compare(kind, 4, 2, 3, 7, opset=opset, constant=False, direction="bidirectional")


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_in_front(kind: str) -> None:
    compare(kind, 4, 3, 5, 6, ("hidden",), runtime=False, layout=1, direction="bidirectional")


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_are_known_on_the_call(kind: str) -> None:
    proto, feeds = layer(kind, 4, 3, 5, 18, ("bias", "hidden"), open_sizes=True)
    check(proto, feeds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(kind: str, activation: str) -> None:
    parameters = {"activation_alpha": [0.3] * 3, "activation_beta": [0.2] * 3}
    names = [activation, *["Tanh"] * (COUNTS[kind] - 1)]
    compare(kind, 3, 2, 4, 5, activations=names, **parameters)
    compare(kind, 3, 2, 4, 5, activations=names[::-1], **parameters)


def test_alpha_and_beta_go_to_those_that_take_one() -> None:
    names = ["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "Elu", "Tanh"]
    compare("LSTM", 3, 2, 4, 5, direction="bidirectional", activations=names, activation_alpha=[0.3, 0.1])


@pytest.mark.parametrize("kind", KINDS)
def test_clipped_sums(kind: str) -> None:
    memory = ("memory",) if kind == "LSTM" else ()
    compare(kind, 3, 2, 4, 5, ("bias", "hidden", *memory), clip=0.3)


@pytest.mark.parametrize("attributes", [{}, {"input_forget": 1}, {"clip": 0.4}])
def test_an_lstm_that_sees_its_memory(attributes: dict[str, Any]) -> None:
    compare("LSTM", 4, 2, 3, 6, ("bias", "memory", "peepholes"), **attributes)


@pytest.mark.parametrize("bias", [(), ("bias",)])
def test_a_gru_that_resets_after_its_product(bias: tuple[str, ...]) -> None:
    compare("GRU", 4, 2, 3, 6, (*bias, "hidden"), linear_before_reset=1)


@pytest.mark.parametrize("kind", KINDS)
def test_other_types(kind: str) -> None:
    proto, feeds = layer(kind, 3, 2, 4, 5, dtype=np.float16)
    check(proto, feeds)
    proto, feeds = layer(kind, 3, 2, 4, 5, dtype=np.float64)
    exact = run_float64(proto, feeds)
    for got, name in zip(lower_and_run(proto, feeds), exact, strict=True):
        np.testing.assert_allclose(got, exact[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"direction": "sideways"}, "direction sideways is unknown"),
        ({"activations": ["Sine"]}, "activation sine is unknown"),
        ({"activations": ["Tanh", "Tanh"]}, "2 activations are given where there are 1"),
        ({"activations": ["Affine"]}, "affine has no activation_alpha and activation_beta"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], words: str) -> None:
    proto, _ = layer("RNN", 3, 2, 4, 5, **attributes)
    with pytest.raises(UnsupportedOperatorError, match=words):
        lower(loaded(proto))
