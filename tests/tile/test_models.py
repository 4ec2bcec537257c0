"""Every cascade of real models, through the untuned schedule and every strategy that carries it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.detect import detect
from redfuser.cascade.model import Cascade
from redfuser.cascade.precision.widen import widen
from redfuser.expr import Tensor
from redfuser.targets import load_target
from redfuser.tile import Schedule, StrategyError, build, default_schedule, interpret, verify
from tests.cascade.reference import evaluate_cascade
from tests.tile.build import STRATEGIES, Inputs


def cascades_of(model: Path) -> set[Cascade]:
    """The distinct cascades of a model, in half precision where the model is."""
    from redfuser.cascade.reading.extract import extract_graph
    from redfuser.frontend import load_model, lower

    lowered = lower(load_model(model), {}, {})
    graph, _ = extract_graph(lowered.module, lowered.provenance)
    return {canonicalise(cascade).cascade for cascade in detect(graph).cascades}


def any_inputs(cascade: Cascade) -> Inputs:
    random = np.random.default_rng(0)

    def fill(tensor: Tensor) -> np.ndarray:
        if "float" in tensor.dtype:
            return random.standard_normal(tensor.shape).astype(tensor.dtype)
        return random.integers(0, 2, tensor.shape).astype(tensor.dtype)

    return {tensor.name: fill(tensor) for tensor in cascade.inputs}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["bert__sdpa18", "bloom__eager18", "clip__eager18", "deepseek_v3__eager18", "gemma2__fp16", "llama__sdpa18"],
)
def test_every_cascade(name: str, corpus: Path) -> None:
    found = cascades_of(corpus / "exported" / f"{name}.onnx")
    assert found
    for literal in found:
        cascade, inputs = widen(literal), any_inputs(literal)
        expected = evaluate_cascade(literal, inputs)
        derivation = derive(cascade)
        chosen = default_schedule(cascade, derivation, load_target("cpu-avx512")).schedule
        small = tuple((a.name, 5) for a in (*cascade.rows, cascade.axis))
        for schedule in (chosen, *(Schedule(strategy, small, 3) for strategy in STRATEGIES)):
            try:
                made = build(cascade, derivation, schedule)
            except StrategyError:
                assert schedule is not chosen
                continue
            verify(made)
            actual = interpret(made, inputs, "float64")
            for output, value in expected.items():
                np.testing.assert_allclose(actual[output], value, rtol=1e-9, atol=1e-11, err_msg=str(made))
