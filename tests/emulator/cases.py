"""The kernels kept under ``kernels``: their launches, inputs, and results in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from redfuser.expr import Tensor
from redfuser.expr.evaluate import numpy_dtype
from redfuser.records import decode, parse
from tests.emulator.emulator import poisoned
from tests.emulator.launch import Launch
from tests.selections import hard_rows, ordered

FOLDER = Path(__file__).resolve().parent / "kernels"
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Record:
    """What is kept beside a source."""

    arch: str
    arrays: tuple[Tensor, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Case:
    """A kernel's source and how to launch it."""

    name: str
    source: str
    record: Record

    @property
    def centre(self) -> float:
        """Mean of the random inputs: where a mean is subtracted, it mustn't be zero anyway."""
        return 3.0 if self.name.startswith("layer_norm") else 0.0

    def inputs(self) -> Arrays:
        """Random inputs, the same at each call; outputs and workspaces hold what mustn't be read."""
        random = np.random.default_rng(0)
        outputs = {"Out", "C", "Y", "Outs", "Tops", "Totals", "y", "where"}
        filled = {}
        for tensor in self.record.arrays:
            array = poisoned(tensor.shape, tensor.dtype)
            if self.name.startswith("column_sums") and tensor.name == "Y":
                array[...] = 0
            elif self.name.startswith(("routing", "selection")) and tensor.name == "x":
                array[...] = hard_rows(*tensor.shape)
            elif tensor.name not in outputs and array.dtype.kind == "i":
                array[...] = random.integers(-8, 8, tensor.shape)
            elif tensor.name not in outputs:
                array[...] = (random.standard_normal(tensor.shape) + self.centre).astype(np.float32)
            filled[tensor.name] = array
        return filled

    def expected(self, arrays: Mapping[str, Array]) -> tuple[Array, Array, float]:
        """The result, what it should be in float64, and by how much each element may differ."""
        family = next(prefix for prefix in REFERENCES if self.name.startswith(prefix))
        wide = {name: array.astype(np.float64) for name, array in arrays.items()}
        output, reference = REFERENCES[family](self, wide)
        got = arrays[output] if isinstance(output, str) else np.stack([arrays[name] for name in output])
        return (
            got,
            reference,
            self._tolerance(arrays) * max(1.0, float(np.abs(reference[np.isfinite(reference)]).max())),
        )

    def _tolerance(self, arrays: Mapping[str, Array]) -> float:
        narrowest = {np.dtype(np.float16): 2e-3, numpy_dtype("bfloat16"): 1.6e-2}
        if "tf32" in self.name or self.name.startswith("quantised"):
            return 4e-3
        if self.name.startswith("product") and "staged" not in self.name:
            return 1e-5
        return max(narrowest.get(array.dtype, 1e-5) for array in arrays.values())


@cache
def case(name: str) -> Case:
    """The case of that name."""
    record = decode(Record, parse((FOLDER / f"{name}.json").read_text()))
    return Case(name, (FOLDER / f"{name}.cu").read_text(), record)


def names() -> list[str]:
    """All cases."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def _attention(case: Case, wide: Arrays) -> tuple[str, Array]:
    scores = wide["Q"] @ wide["K"].swapaxes(-1, -2) / np.sqrt(wide["Q"].shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return "Out", weights / weights.sum(-1, keepdims=True) @ wide["V"]


def _product(case: Case, wide: Arrays) -> tuple[str, Array]:
    a = wide["A"].T if "transposed" in case.name else wide["A"]
    b = wide["B"].T if case.name.endswith(("int8", "e4m3", "narrow")) else wide["B"]
    return "C", a @ b


def _quantised_product(case: Case, wide: Arrays) -> tuple[str, Array]:
    scale = np.maximum(np.abs(wide["A"]).max(1, keepdims=True), 1e-12).astype(np.float32) / np.float32(448)
    quantised = (wide["A"].astype(np.float32) / scale).astype(numpy_dtype("float8_e4m3fn")).astype(np.float64)
    return "C", quantised @ wide["B"].T * scale


def _layer_norm(case: Case, wide: Arrays) -> tuple[str, Array]:
    centred = wide["X"] - wide["X"].mean(1, keepdims=True)
    return "Y", centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * wide["G"]


def _column_sums(case: Case, wide: Arrays) -> tuple[str, Array]:
    return "Y", wide["X"].sum(0)


def _selection(case: Case, wide: Arrays) -> tuple[tuple[str, str], Array]:
    where = ordered(wide["x"], wide["y"].shape[1])
    return ("y", "where"), np.stack([np.take_along_axis(wide["x"], where, axis=1), where])


def _routing(case: Case, wide: Arrays) -> tuple[tuple[str, str], Array]:
    """Weights and positions: by the probabilities, also where an infinity makes them 0 or NaN."""
    x, count = wide["x"], wide["y"].shape[1]
    with np.errstate(invalid="ignore"):
        weights = np.exp(x - x.max(1, keepdims=True))
        probabilities = weights / weights.sum(1, keepdims=True)
    where = ordered(probabilities, count)
    best = np.take_along_axis(probabilities, where, axis=1)
    return ("y", "where"), np.stack([best / best.sum(1, keepdims=True), where])


REFERENCES: dict[str, Callable[[Case, Arrays], tuple[str | tuple[str, ...], Array]]] = {
    "attention": _attention,
    "split_attention": _attention,
    "product": _product,
    "quantised_product": _quantised_product,
    "layer_norm": _layer_norm,
    "column_sums": _column_sums,
    "routing": _routing,
    "selection": _selection,
}
