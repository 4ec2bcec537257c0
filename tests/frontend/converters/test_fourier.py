"""The discrete Fourier transform against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from tests.frontend.converters.checking import check, normal
from tests.frontend.running import graph_of, loaded, lower_and_run, run, single


def transformed(x: np.ndarray, axis: int, length: int | None, inverse: bool, onesided: bool) -> np.ndarray:
    """As pairs, in float64."""
    signal = x[..., 0] + 1j * (x[..., 1] if x.shape[-1] == 2 else 0)
    result = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis)
    if onesided:
        result = np.take(result, range(result.shape[axis] // 2 + 1), axis)
    return np.stack([result.real, result.imag], -1)


@pytest.mark.parametrize("length", [None, 5, 11])
@pytest.mark.parametrize(
    ("parts", "attributes"),
    [(1, {"axis": 1}), (1, {"axis": 2, "onesided": 1}), (2, {"axis": 1}), (2, {"axis": 2, "inverse": 1})],
)
def test_any_axis_and_length(parts: int, attributes: dict[str, int], length: int | None) -> None:
    x = normal(2, 7, 6, parts)
    constants = {} if length is None else {"length": np.array(length)}
    (got,) = lower_and_run(single("DFT", {"x": x}, constants, **attributes), {"x": x})
    flags = bool(attributes.get("inverse")), bool(attributes.get("onesided"))
    np.testing.assert_allclose(got, transformed(x, attributes["axis"], length, *flags), rtol=1e-5, atol=1e-5)
    assert got.dtype == np.float32


def test_an_axis_that_is_an_input() -> None:
    x = normal(2, 6, 5, 2)
    proto = single("DFT", {"x": x}, {"_length": x, "axis": np.array(-2)}, opset=20)
    (got,) = lower_and_run(proto, {"x": x})
    np.testing.assert_allclose(got, transformed(x, 2, None, False, False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types(dtype: type) -> None:
    x = normal(2, 8, 1).astype(dtype)
    (got,) = lower_and_run(single("DFT", {"x": x}), {"x": x})
    assert got.dtype == dtype
    tolerance = 1e-2 if dtype is np.float16 else 1e-12
    np.testing.assert_allclose(got, transformed(x.astype(float), 1, None, False, False), rtol=tolerance, atol=tolerance)


def test_a_long_signal_is_as_exact_as_its_sum() -> None:
    """Phases grow to a million turns; taken as they are, float32 would have no digit of them left."""
    x = normal(1, 1000, 1)
    (got,) = lower_and_run(single("DFT", {"x": x}), {"x": x})
    error = got - transformed(x, 1, None, False, False)
    assert np.sqrt(np.mean(error**2)) < 1e-5 * np.sqrt(1000)


def test_any_number_of_signals() -> None:
    x = normal(3, 6, 1)
    proto = graph_of([single("DFT", {"x": x}).graph.node[0]], {"x": (1, ["n", 6, 1])}, ["y0"])
    (got,) = run(lower(loaded(proto)), {"x": x})
    np.testing.assert_allclose(got, transformed(x, 1, None, False, False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, 5000, 1), "a signal of 5000 elements is too long"),
        ((1, "n", 1), "the symbolic dimension n must be fixed"),
    ],
)
def test_what_is_refused(shape: Any, words: str) -> None:
    node = single("DFT", {"x": normal(1, 6, 1)}).graph.node[0]
    with pytest.raises(UnsupportedOperatorError, match=f"operator DFT .*{words}"):
        lower(loaded(graph_of([node], {"x": (1, shape)}, ["y0"])))


def test_the_oracle_agrees() -> None:
    x = normal(2, 7, 2)
    check(single("DFT", {"x": x}, inverse=1), {"x": x})
