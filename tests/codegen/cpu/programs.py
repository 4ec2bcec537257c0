"""Small tile programs, and running a program as machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from redfuser.accuracy import compare
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.codegen.cpu import compile_kernel, generate
from redfuser.expr import Expr, Tensor, axis, cast, load, op
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import Schedule, TileProgram, interpret, verify
from redfuser.tile.ir import Phase, Store, Tile

Array = np.ndarray[Any, Any]


@cache
def target(name: str = "cpu") -> CpuTarget:
    """A CPU target by name."""
    found = load_target(name)
    assert isinstance(found, CpuTarget)
    return found


def elementwise(value: Callable[..., Expr], points: int, *dtypes: str, out: str = "") -> TileProgram:
    """``y[i] = value(a[i], b[i], …)`` for inputs of the given types, in blocks of 64 points."""
    i = axis("i", points)
    inputs = tuple(Tensor(name, (points,), dtype) for name, dtype in zip("abcd", dtypes, strict=False))
    result = value(*(load(tensor, i) for tensor in inputs))
    output = Tensor("y", (points,), out or result.dtype)
    phase = Phase((Tile(i, min(64, points)),), (), (Store(output, (i,), (i,), result),))
    program = TileProgram("elementwise", inputs, (output,), (), (phase,), Schedule("resident", lanes="i"))
    verify(program)
    return program


def run(program: TileProgram, inputs: Mapping[str, Array], device: str | CpuTarget = "cpu") -> dict[str, Array]:
    """The outputs of the compiled program by name."""
    kernel = _compiled(program, target(device) if isinstance(device, str) else device)
    results = kernel(*(np.asarray(inputs[tensor.name]) for tensor in program.inputs))
    return {tensor.name: result for tensor, result in zip(program.outputs, results, strict=True)}


@lru_cache(maxsize=32)
def _compiled(program: TileProgram, device: CpuTarget) -> Callable[..., list[Array]]:
    """Tests try a program on several inputs, and compiling is most of what they take."""
    return compile_kernel(generate(program, device), device, len(program.outputs))


def assert_matches(
    program: TileProgram, inputs: Mapping[str, Array], device: str | CpuTarget = "cpu"
) -> dict[str, Array]:
    """The compiled program meets the accuracy rule against the interpreter; gives its outputs."""
    results = run(program, inputs, device)
    exact, rounded = interpret(program, inputs, "float64"), interpret(program, inputs)
    for tensor in program.outputs:
        name = tensor.name
        accuracy = compare(results[name], exact[name], rounded[name], tensor.dtype)
        assert accuracy.passed, f"{name}: {accuracy}"
    return results


def ulps(got: Array, exact: Array) -> float:
    """Largest error in units of the last place of float32, over finite results."""
    reference = exact.astype(np.float32)
    finite = np.isfinite(reference) & np.isfinite(got)
    unit = np.spacing(np.abs(reference[finite]))
    return float((np.abs(got[finite].astype(np.float64) - exact[finite]) / unit).max(initial=0))


def vector(values: Sequence[float], dtype: str = "float32") -> Array:
    """An array of the given values."""
    return np.array(values, dtype=dtype)


def typed_softmax(dtype: str) -> Cascade:
    """Softmax over rows of a type; what is narrower than float32 is computed in it."""
    i, j = axis("i", 3), axis("l", 70)
    work = "float64" if dtype == "float64" else "float32"
    x = cast(load(Tensor("x", (3, 70), dtype), i, j), work)
    m = Reduction(Tensor("m", (3,), work), "max", (i,), j, x)
    weight = op("exp", op("sub", x, m.value))
    t = Reduction(Tensor("t", (3,), work), "sum", (i,), j, weight)
    y = Output(Tensor("y", (3, 70), dtype), (i, j), (i, j), cast(op("div", weight, t.value), dtype))
    cascade = Cascade("softmax_0", (i,), j, (Tensor("x", (3, 70), dtype),), (), (m, t), (y,))
    cascade.verify()
    return cascade
