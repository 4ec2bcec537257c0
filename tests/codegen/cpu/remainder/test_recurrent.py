"""Recurrent layers: what is written for a CPU computes what the function as lowered does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

import redfuser as library
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.function import schedule_function
from redfuser.codegen.cpu.remainder.recurrent.tile import choose_tile
from redfuser.oracle.run import run_float64
from redfuser.recurrent.plain import plain
from redfuser.recurrent.recurrence import Activation, Recurrence
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import able
from tests.recurrent.build import layer

SIGMOID, TANH = Activation("sigmoid"), Activation("tanh")
LSTM = Recurrence("LSTM", 40, "float32", (SIGMOID, TANH, TANH))
GRU = Recurrence("GRU", 40, "float32", (SIGMOID, TANH))
RNN = Recurrence("RNN", 40, "float32", (TANH,))

VARIANTS = {
    "lstm": LSTM,
    "lstm backwards": replace(LSTM, reverse=True, ragged=True),
    "lstm with peepholes": replace(LSTM, peepholes=True, clip=0.5, hidden=20),
    "coupled": replace(LSTM, coupled=True, activations=(Activation("hardsigmoid", 0.2, 0.5), Activation("relu"), TANH)),
    "gru": GRU,
    "gru backwards": replace(GRU, reverse=True, ragged=True),
    "gru that resets after": replace(GRU, reset_after=True, ragged=True),
    "rnn": replace(RNN, ragged=True),
    "double": replace(LSTM, dtype="float64"),
    "many units": replace(GRU, hidden=300, reset_after=True),
}

#: One row, less than a tile of rows, several tiles and a rest.
BATCHES = (1, 3, 7, 13)


def call(function: tvm.tirx.PrimFunc, target: CpuTarget, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What a function writes into its last two arguments."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(module, tvm.target.Target(target.llvm()))["main"](*tensors)
    return [tensor.numpy() for tensor in tensors[-2:]]


def arguments(recurrence: Recurrence, steps: int, batch: int) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    lengths = rng.permutation(np.arange(batch) % (steps + 1))
    return [
        lengths.astype(np.int32)
        if name == "lengths"
        else (rng.standard_normal(shape) / 4).astype(recurrence.dtype_of(name))
        for name, shape in recurrence.shapes(steps, batch).items()
    ]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    ("processor", "open_sizes"),
    [("cpu", False), ("cpu", True), pytest.param("cpu-avx2", False, marks=pytest.mark.slow)],
)
def test_it_computes_what_was_lowered(name: str, processor: str, open_sizes: bool) -> None:
    target, recurrence = able(processor), VARIANTS[name]
    for batch in BATCHES:
        extents = (tvm.tirx.Var("n", "int64"), tvm.tirx.Var("b", "int64")) if open_sizes else (5, batch)
        lowered = plain(recurrence, *extents)
        scheduled = schedule_function(lowered, [], target)
        assert scheduled.kind == "recurrent"
        given = arguments(recurrence, 5, batch)
        for got, expected in zip(*(call(f, target, given) for f in (scheduled.function, lowered)), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "batch", "tile"),
    [
        ("cpu-avx512", 1, (1, 2)),
        ("cpu-avx512", 8, (4, 1)),
        ("cpu-avx512", None, (6, 1)),
        ("cpu-avx2", 1, (1, 2)),
        ("cpu-avx2", 8, (3, 1)),
    ],
)
def test_sums_fill_the_registers_and_are_enough_to_hide_their_latency(
    name: str, batch: int | None, tile: tuple[int, int]
) -> None:
    target = load_target(name)
    assert isinstance(target, CpuTarget)
    found = choose_tile(replace(LSTM, hidden=256), Machine.of(target), batch)
    assert (found.rows, found.vectors) == tile


def test_a_whole_layer(tmp_path: Path) -> None:
    """Units that fill no vector, weights that are packed when compiling, two directions, any size."""
    model, feeds = layer("LSTM", 9, 5, 12, 130, ("bias", "hidden"), open_sizes=True, direction="bidirectional")
    onnx.save(model, tmp_path / "lstm.onnx")
    library.compile(tmp_path / "lstm.onnx", output=tmp_path / "out")
    results, exact = library.load(tmp_path / "out")(feeds), run_float64(model, feeds)
    for name, value in exact.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-5)
