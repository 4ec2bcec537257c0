"""Norms in every precision, over any axes."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.errors import ModelError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.converters.checking import RNG, check, normal
from tests.frontend.running import loaded, lower_and_run, single


def test_layer_norm_with_its_statistics() -> None:
    x = normal(2, 3, 4) * 3 + 1
    check(single("LayerNormalization", {"x": x}, {"s": normal(3, 4), "b": normal(3, 4)}, outputs=3, axis=1), {"x": x})
    check(single("LayerNormalization", {"x": x}, {"s": normal(4)}), {"x": x})


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_layer_norm_keeps_statistics_in_single_precision_whatever_the_data(dtype: type) -> None:
    x = (normal(3, 40) * 3 + 1).astype(dtype)
    weights = {"s": normal(40).astype(dtype), "b": normal(40).astype(dtype)}
    proto = single("LayerNormalization", {"x": x}, weights, outputs=3)
    got, expected = lower_and_run(proto, {"x": x}), run_float64(proto, {"x": x})
    assert [str(value.dtype) for value in got] == [np.dtype(dtype).name, "float32", "float32"]
    for value, name, tolerance in zip(got, expected, (2e-3 if dtype is np.float16 else 1e-13, 1e-6, 1e-6), strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("operator", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.1}])
def test_norms_of_double_precision_are_in_double(operator: str, attributes: dict[str, float]) -> None:
    x = RNG.standard_normal((2, 3, 4))
    proto = single(operator, {"x": x}, {"s": RNG.standard_normal((3, 4))}, opset=23, axis=1, **attributes)
    np.testing.assert_allclose(lower_and_run(proto, {"x": x})[0], run_float64(proto, {"x": x})["y0"], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_mean_variance_norm_of_constant_and_distant_values(dtype: type) -> None:
    x = (normal(2, 3, 8) * 0.1 + 50).astype(dtype)
    x[0, 0] = 3  # neither NaN nor what E[x²] − E[x]² leaves of a variance of zero
    proto = single("MeanVarianceNormalization", {"x": x}, axes=[2])
    expected = run_float64(proto, {"x": x})["y0"]
    np.testing.assert_allclose(lower_and_run(proto, {"x": x})[0], expected, atol=2e-3 if dtype is np.float16 else 2e-4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rms_norm_over_any_axes(axis: int) -> None:
    x = normal(2, 3, 4)
    check(single("RMSNormalization", {"x": x}, {"s": normal(*x.shape[axis:])}, opset=23, axis=axis), {"x": x})


def test_batch_norm() -> None:
    x = normal(2, 3, 4, 5)
    weights = {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3)) + 0.1}
    check(single("BatchNormalization", {"x": x}, weights), {"x": x})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 5)], ids=str)
def test_batch_norm_by_statistics_of_the_call(shape: tuple[int, ...], dtype: str) -> None:
    channels = {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3)) + 0.1}
    feeds = {name: value.astype(dtype) for name, value in {"x": normal(*shape) + 4, **channels}.items()}
    check(single("BatchNormalization", feeds, epsilon=1e-3), feeds)
    given = {name: feeds.pop(name) for name in ("s", "b")}
    check(single("BatchNormalization", feeds | given), feeds | given)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batch_norm_of_training(dtype: str) -> None:
    channels = {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3)) + 0.1}
    feeds = {name: value.astype(dtype) for name, value in {"x": normal(4, 3, 2, 5) + 4, **channels}.items()}
    check(single("BatchNormalization", feeds, outputs=3, training_mode=1, momentum=0.7), feeds)
    with pytest.raises(ModelError, match="outputs should be 1"):  # statistics come out of training mode alone
        lower_and_run(single("BatchNormalization", feeds, outputs=3), feeds)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 4)], ids=str)
def test_instance_norm_takes_the_mean_once(shape: tuple[int, ...], dtype: str) -> None:
    feeds = {"x": (normal(*shape) + 4).astype(dtype), "scale": normal(3).astype(dtype), "bias": normal(3).astype(dtype)}
    proto = single("InstanceNormalization", feeds, epsilon=1e-3)
    check(proto, feeds)
    folds = [str(function).count("T.init()") for function in lower(loaded(proto)).module.functions.values()]
    assert sum(folds) == 1, "the same function gives mean and variance"
