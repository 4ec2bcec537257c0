import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import redfuser
from redfuser.artifact.device import check_capability, check_device, check_processor
from redfuser.artifact.load import check_feeds
from redfuser.errors import MissingToolError, UsageError, VerificationError
from redfuser.machine.host import usable_cores
from redfuser.machine.threads import THREADS_VARIABLES, WORKERS
from redfuser.report.value import TargetInfo
from redfuser.signature import DimSum, TensorSpec
from tests.frontend.running import single

SPECS = (TensorSpec("x", (2, 3), "float32"), TensorSpec("n", (), "int64"))


def test_a_loaded_module_runs(artifact: Path) -> None:
    model = redfuser.load(artifact)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = model({"n": np.asarray(7), "x": x})
    assert list(result) == ["double", "same"]
    np.testing.assert_array_equal(result["double"], 2 * x)
    assert result["same"].shape == () and result["same"].dtype == np.int64 and result["same"] == 7
    np.testing.assert_array_equal(model({"n": np.asarray(7), "x": x[:, ::-1]})["double"], 2 * x[:, ::-1])


def test_a_dimension_that_is_a_sum_of_others_must_be_it() -> None:
    specs = tuple(TensorSpec(name, (name,), "float32") for name in ("all", "past", "new"))
    sums = {"all": DimSum({"past": 1, "new": 1})}
    feeds = {"all": np.zeros(5, np.float32), "past": np.zeros(0, np.float32), "new": np.zeros(5, np.float32)}
    assert len(check_feeds(specs, feeds, {}, sums)) == 3
    message = r"dimension 'all' is 5, but has to be past \+ new: 7, since 'past' is 2, 'new' is 5"
    with pytest.raises(UsageError, match=message) as refusal:
        check_feeds(specs, {**feeds, "past": np.zeros(2, np.float32)}, {}, sums)
    assert "--dim past=N" in refusal.value.hint


@pytest.mark.parametrize("shape", [(0, 30), (4, 0)])
def test_arrays_without_elements(shape: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(single("Softmax", {"x": np.zeros(shape, np.float32)}, opset=18).SerializeToString())
    (result,) = redfuser.compile(path, output=tmp_path / "out").load()({"x": np.zeros(shape, np.float32)}).values()
    assert result.shape == shape


def test_calls_from_several_threads_take_turns(artifact: Path) -> None:
    model = redfuser.load(artifact)
    main, inside, crowds = model.machine["main"], [], []

    def watched(*arguments: object) -> object:
        inside.append(1)
        crowds.append(len(inside))
        time.sleep(0.002)  # lets another thread in, were there nothing to keep it out
        result = main(*arguments)
        inside.pop()
        return result

    shared = replace(model, machine={"main": watched})
    feeds = [{"n": np.asarray(i), "x": np.full((2, 3), i, np.float32)} for i in range(16)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(shared, feeds))
    assert crowds == [1] * 16
    assert all(result["same"] == i and (result["double"] == 2 * i).all() for i, result in enumerate(results))


def test_it_runs_with_tvm_alone(artifact: Path) -> None:
    script = f"""
import numpy as np, tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module({str(artifact / "module.so")!r}), tvm.cpu())
double, same = machine["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")), tvm.runtime.tensor(np.asarray(5)))
assert (double.numpy() == 2).all() and same.numpy() == 5
import sys
assert "redfuser" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("given", "asked", "expected"),
    [({}, None, None), ({"TVM_NUM_THREADS": "1"}, None, 1), ({"OMP_NUM_THREADS": "1"}, None, 1), ({}, 1, 1)],
)
def test_threads(artifact: Path, monkeypatch, given: dict[str, str], asked: int | None, expected: int | None) -> None:
    import tvm

    for name in THREADS_VARIABLES:
        monkeypatch.setenv(name, "")  # so that what load sets is taken back
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for name in WORKERS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    redfuser.load(artifact, threads=asked)
    assert os.environ["TVM_BIND_THREADS"] == "0"  # a worker tied to the caller's core would wait for it
    # TVM makes a pool for every thread that runs something, and reads the variables then.
    with ThreadPoolExecutor(1) as fresh:
        assert fresh.submit(tvm.get_global_func("runtime.NumThreads")).result() == (expected or usable_cores())


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True, 1025])
def test_numbers_of_threads_that_are_none(artifact: Path, count: object) -> None:
    before = os.environ.get("TVM_NUM_THREADS")
    with pytest.raises(UsageError, match="isn't a whole number from 1 to 1024"):
        redfuser.load(artifact, threads=count)
    assert os.environ.get("TVM_NUM_THREADS") == before


@pytest.mark.parametrize(
    ("threads", "before", "ends"),
    [
        (2, "pass", "model"),
        (2, "model(feeds)", "refused"),  # TVM's workers stay behind, and whoever has some waits for them without an end
        (2, "in_thread(model, feeds)", "model"),
        (1, "model(feeds)", "model"),
    ],
)
def test_a_forked_process_runs_what_its_thread_has_no_workers_for(
    artifact: Path, threads: int, before: str, ends: str
) -> None:
    script = f"""
import os, signal, sys, numpy as np, redfuser
from concurrent.futures import ThreadPoolExecutor

def in_thread(function, argument):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, argument).result()

feeds = {{"x": np.ones((2, 3), np.float32), "n": np.asarray(5)}}
model = redfuser.load({str(artifact)!r}, threads={threads})
{before}
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (3 if {ends!r} == "model" else 7)
    assert (model(feeds)["double"] == 2).all()
    sys.exit()
signal.alarm(240)
try:
    sys.exit(3 if (model(feeds)["double"] == 2).all() else 4)
except redfuser.RedFuserError as error:
    os._exit(7 if "forked" in error.message else 8)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


X, N = np.zeros((2, 3), np.float32), np.zeros((), np.int64)


class Unwilling:
    """No array, and says so in an exception of its own."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": X}, "input 'n' is missing"),
        ({"x": X, "n": N, "z": X}, "no input is called 'z'"),
        ({"x": X.T, "n": N}, r"input x: float32\[3, 2\] doesn't fit the module's x: float32\[2, 3\]"),
        ({"x": X.astype(np.float64), "n": N}, "float64"),
        ({"x": X, "n": N.reshape(1)}, r"n: int64\[1\]"),
        ({"x": X.astype(object), "n": N}, "object"),
        ({"x": X.tolist(), "n": N}, "float64"),
        ({"x": [[1, 2], [3]], "n": N}, "input 'x' can't be made an array"),
        ({"x": Unwilling(), "n": N}, "input 'x' can't be made an array: call detach"),
        ({"x": X, "n": N, 3: N, "z": X}, "no input is called 3"),
        ([X, N], "mapping of names to arrays, not as a list"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feeds: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_feeds(SPECS, feeds)


def test_feeds_come_in_calling_order_and_contiguous() -> None:
    wide = np.zeros((2, 6), np.float32)[:, ::2]
    x, n = check_feeds(SPECS, {"n": N, "x": wide})
    assert x.flags.c_contiguous and n.shape == ()


def test_a_damaged_module_is_named(artifact: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(artifact, damaged)
    size = (damaged / "module.so").stat().st_size
    os.truncate(damaged / "module.so", size // 2)
    with pytest.raises(VerificationError, match=f"has {size // 2} bytes instead of {size}"):
        redfuser.load(damaged)
    (damaged / "module.so").write_bytes(b"not a library".ljust(size))
    with pytest.raises(VerificationError, match="cannot be loaded"):
        redfuser.load(damaged)
    (damaged / "module.so").unlink()
    with pytest.raises(VerificationError, match="is missing"):
        redfuser.load(damaged)
    with pytest.raises(UsageError, match="isn't a redfuser artifact"):
        redfuser.load(tmp_path)


def test_a_lesser_processor_is_refused() -> None:
    avx512 = TargetInfo("cpu-avx512", "cpu", "x86-64-v4", ("avx512vnni",))
    with pytest.raises(MissingToolError, match=r"cpu-avx512; this processor lacks .*avx2.*avx512_vnni"):
        check_processor(avx512, frozenset({"sse4_2"}))
    check_processor(TargetInfo("cpu-x86-64", "cpu", "x86-64"), frozenset({"sse2"}))
    check_processor(avx512, frozenset())
    with pytest.raises(MissingToolError, match="lacks made-up"):
        check_processor(TargetInfo("odd", "cpu", "made-up"), frozenset({"sse2"}))


@pytest.mark.parametrize(
    ("arch", "capability", "fits"),
    [
        ("sm_90a", "9.0", True),
        ("sm_90a", "9.1", False),
        ("sm_80", "8.0", True),
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_80", "9.0", False),
    ],
)
def test_machine_code_runs_on_its_own_architecture(arch: str, capability: str, fits: bool) -> None:
    target = TargetInfo("some-gpu", "gpu", arch)
    if fits:
        check_capability(target, capability)
        return
    with pytest.raises(MissingToolError, match=f"some-gpu .{arch}.*{capability}"):
        check_capability(target, capability)


def test_the_device_must_be_of_the_target_s_kind() -> None:
    gpu, cpu = TargetInfo("h800", "gpu", "sm_90a"), TargetInfo("cpu-x86-64", "cpu", "x86-64")
    assert [check_device(gpu, wanted) for wanted in (None, "cuda", "cuda:3")] == [0, 0, 3]
    assert check_device(cpu, None) == check_device(cpu, "cpu") == 0
    for target, wanted in ((gpu, "cpu"), (cpu, "cuda"), (gpu, "gpu"), (gpu, "cuda:x"), (cpu, "cpu:1"), (cpu, "")):
        with pytest.raises(UsageError):
            check_device(target, wanted)
