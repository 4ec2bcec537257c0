"""The layouts of tensor cores and copies are those of NVIDIA's CuTe, and conversions of narrow floats are NumPy's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from redfuser.codegen.gpu.tools.toolchain import find_toolchain
from redfuser.codegen.gpu.tools.toolkit import find_nvcc
from redfuser.errors import MissingToolError
from redfuser.expr.evaluate import numpy_dtype
from tests.emulator import emulator
from tests.emulator.library import needs_compiler

HERE = Path(__file__).resolve().parent

CONVERT = """
extern "C" __global__ void to_{name}(const float* X, {type}* Y) {{ Y[threadIdx.x] = {type}(X[threadIdx.x]); }}
extern "C" __global__ void from_{name}(const {type}* Y, float* X) {{ X[threadIdx.x] = float(Y[threadIdx.x]); }}
"""
TYPES = {"float16": "half_t", "bfloat16": "bfloat16_t", "float8_e4m3fn": "fp8_e4_t", "float8_e5m2": "fp8_e5_t"}


@pytest.mark.slow
@needs_compiler
def test_agree_with_cute(tmp_path: Path) -> None:
    try:
        toolkit, includes = find_nvcc().parents[1] / "include", find_toolchain().includes
    except MissingToolError as missing:
        pytest.skip(missing.message)
    program = tmp_path / "check"
    folders = [*includes, f"-I{toolkit}", f"-I{toolkit / 'cccl'}", f"-I{HERE}"]
    command = ["g++", "-std=c++20", "-O1", "-w", *folders, "-o", str(program), str(HERE / "check_layouts.cpp")]
    subprocess.run(command, check=True, timeout=300)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("ok  ") == 17 and done.returncode == 0, done.stdout


@needs_compiler
@pytest.mark.parametrize("dtype", TYPES)
def test_conversions_are_numpys(dtype: str) -> None:
    edge = [0.0, -0.0, 1.0, 1.0625, 1.1875, 2.0**-9, 3 * 2.0**-10, 2.0**-16, 2.0**-24, -448.0, 240.0, 57344.0, 65504.0]
    values = np.concatenate([edge, np.random.default_rng(0).standard_normal(128 - len(edge)) * 10]).astype(np.float32)
    largest = {"float8_e4m3fn": 448, "float8_e5m2": 57344}.get(dtype, np.inf)
    values = np.clip(values, -largest, largest)  # beyond, the device saturates, and NumPy's types don't
    narrow, wide = emulator.poisoned((128,), dtype), emulator.poisoned((128,), "float32")
    source = CONVERT.format(name=dtype, type=TYPES[dtype])
    arguments = {
        name: emulator.Argument(name, kind, (128,), "input") for name, kind in (("X", "float32"), ("Y", dtype))
    }
    to = emulator.Launch(f"to_{dtype}", (1, 1, 1), (128, 1, 1), 0, (arguments["X"], arguments["Y"]))
    back = emulator.Launch(f"from_{dtype}", (1, 1, 1), (128, 1, 1), 0, (arguments["Y"], arguments["X"]))
    emulator.run(source, [to], {"X": values, "Y": narrow})
    expected = values.astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(narrow.view(np.uint8), expected.view(np.uint8))
    emulator.run(source, [back], {"X": wide, "Y": narrow})
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


@needs_compiler
def test_what_is_not_emulated_is_refused() -> None:
    launch = emulator.Launch("f", (1, 1, 1), (32, 1, 1), 0, ())
    with pytest.raises(emulator.EmulationError, match="inline assembly"):
        emulator.run('extern "C" __global__ void f() {\n  asm volatile("trap;");\n}', [launch], {})
    with pytest.raises(emulator.EmulationError, match="no_such_thing"):
        emulator.run('extern "C" __global__ void f() {\n  tl::no_such_thing();\n}', [launch], {})
    with pytest.raises(emulator.EmulationError, match="no kernel 'f'"):
        emulator.run('extern "C" __global__ void g() {\n}', [launch], {})
    with pytest.raises(emulator.EmulationError, match="takes 0 arguments"):
        argument = emulator.Argument("X", "float32", (4,), "input")
        one = emulator.Launch("f", (1, 1, 1), (32, 1, 1), 0, (argument,))
        emulator.run('extern "C" __global__ void f() {\n}', [one], {"X": np.zeros(4, np.float32)})
