"""ONNX's node cases of the operators that cascades are made of, by family."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

#: How the names of a family's cases begin, after ``test_``.
FAMILIES = (
    "argmax",
    "argmin",
    "attention",
    "cumsum",
    "dequantizelinear",
    "dynamicquantizelinear",
    "einsum",
    "gelu",
    "group_normalization",
    "gru",
    "hardmax",
    "instancenorm",
    "l1normalization",
    "l2normalization",
    "layer_normalization",
    "logsoftmax",
    "lpnormalization",
    "lstm",
    "matmulinteger",
    "mvn",
    "nllloss",
    "qlinearmatmul",
    "quantizelinear",
    "reduce_log_sum_exp",
    "reduce",
    "rms_normalization",
    "rnn",
    "rotary_embedding",
    "sce",
    "simple_rnn",
    "softmax",
    "top_k",
)
_NAME = re.compile(f"test_({'|'.join(FAMILIES)})(_|$)")

#: Runs a model on arrays.
Run = Callable[[ModelProto, Sequence[np.ndarray]], Sequence[np.ndarray]]


@cache
def cases() -> dict[str, TestCase]:
    """Every case of the families, by name. Making them takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dividing by zero is part of some
        collected = collect_testcases(None)
    found = {case.name: case for case in collected if _NAME.match(case.name)}
    return dict(sorted(found.items()))


def family_of(name: str) -> str:
    """The family a case belongs to."""
    match = _NAME.match(name)
    assert match, name
    return match.group(1)


def check(case: TestCase, run: Run) -> None:
    """Run a case and compare by ONNX's own rule.

    Raises:
        AssertionError: the numbers, a shape or a type differ.
    """
    for inputs, outputs in case.data_sets:
        got = run(case.model, arrays(inputs))
        Runner.assert_similar_outputs(*_comparable(arrays(outputs), list(got)), case.rtol, case.atol)


def arrays(values: Sequence[Any]) -> list[np.ndarray]:
    """A data set's inputs or outputs, which may be arrays, scalars or tensors of ONNX."""
    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in values]


def _comparable(expected: list[np.ndarray], got: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Types that NumPy's comparison doesn't know, as float32; they must be equal first."""
    if [array.dtype for array in expected] != [array.dtype for array in got]:
        raise AssertionError(f"types {[a.dtype.name for a in got]} instead of {[a.dtype.name for a in expected]}")
    narrow = [array.dtype.isbuiltin != 1 and array.dtype.name != "bfloat16" for array in expected]
    pairs = [
        (a.astype(np.float32), b.astype(np.float32)) if special else (a, b)
        for a, b, special in zip(expected, got, narrow, strict=True)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]
