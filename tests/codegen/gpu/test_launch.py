"""The launcher: what reaches the driver for programs of several kernels, tensor maps, clusters, large shared memory."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from redfuser.codegen.gpu.launch import PackedKernel, build_programs, program_symbol
from redfuser.codegen.gpu.launch.tables import program_tables
from redfuser.codegen.gpu.tools.toolkit import compile_cuda
from redfuser.codegen.gpu.value import Argument, GpuKernel, GpuProgram, Resources, TensorMap
from redfuser.expr import Tensor
from redfuser.extents import Dim, size_of
from tests.codegen.gpu.whole.recording import Recorder, Recording

X, Y, W = Tensor("x", (4, 64), "float16"), Tensor("y", (4,), "float32"), Tensor("w", (4, 64), "float32")

SOURCE = """
struct alignas(64) Map { unsigned long long bits[16]; };
extern "C" __global__ void widen(const __grid_constant__ Map x, float* w) { w[threadIdx.x] = x.bits[0]; }
extern "C" __global__ void fold(float* y, const float* w) { y[0] = w[0]; }
extern "C" __global__ void scale(float* y, const float* w, int rows) { y[0] = w[0] * rows; }
"""

MAP = TensorMap(6, (64, 4), (128,), (32, 4), (1, 1), 0, 2, 3, 0)

#: Calls the program of a library as a module of TVM's would.
CALL = """
import ctypes, sys, threading
import numpy, tvm

def tensor(shape, dtype):
    return tvm.runtime.tensor(numpy.zeros(shape, dtype), tvm.cuda(0))

module = tvm.runtime.load_module(sys.argv[1])
x, y, w = tensor((4, 64), "float16"), tensor((4,), "float32"), tensor((4, 64), "float32")
exec(sys.argv[2])
"""


@pytest.fixture(scope="module")
def program(nvcc: Path) -> GpuProgram:
    """Two kernels: the first reads ``x`` through a tensor map and fills a workspace, the second folds that."""
    cubin = compile_cuda(SOURCE, "sm_90a").code
    mapped = Argument("x", X.dtype, X.shape, "input", MAP)
    result, workspace = Argument("y", Y.dtype, Y.shape, "output"), Argument("w", W.dtype, W.shape, "workspace")

    def kernel(entry: str, *arguments: Argument, shared: int, grid: tuple[int, ...]) -> GpuKernel:
        used = Resources(32, 0, 0, 0, shared, 128)
        return GpuKernel(entry, "", "", cubin, entry, arguments, grid, (128, 1, 1), (1, 1, 1), used, "sm_90a")

    first = kernel("widen", mapped, workspace, shared=100_000, grid=(4, 3, 1))
    second = replace(kernel("fold", result, workspace, shared=0, grid=(2, 1, 1)), cluster=(2, 1, 1))
    return GpuProgram("two", (X,), (Y,), (W,), (first, second))


@pytest.fixture(scope="module")
def library(program: GpuProgram, recorder: Recorder) -> Path:
    """The program with its launcher."""
    return link(program, recorder.folder)


def link(program: GpuProgram, folder: Path) -> Path:
    name = program.name
    (folder / f"{name}.o").write_bytes(build_programs([program]))
    subprocess.run(["gcc", "-shared", "-o", f"{name}.so", f"{name}.o", "-ldl"], cwd=folder, check=True)
    return folder / f"{name}.so"


def call(recorder: Recorder, library: Path, script: str = 'module["rf_two"](x, y, w)', **pretend: int) -> Recording:
    return recorder.run("-c", CALL, str(library), script, **pretend)


def test_kernels_are_launched_in_order_with_all_that_is_known(recorder: Recorder, library: Path) -> None:
    done = call(recorder, library)
    assert done.code == 0, done.output
    widen, fold = done.of("launch")
    assert (widen["kernel"], widen["grid"], widen["block"], widen["shared"]) == (
        "widen",
        [4, 3, 1],
        [128, 1, 1],
        100_000,
    )
    assert (fold["kernel"], fold["grid"], fold["cluster"], fold["shared"]) == ("fold", [2, 1, 1], [2, 1, 1], 0)
    (described,) = done.of("map")
    x, (y, w) = described["address"], fold["arguments"]
    assert widen["arguments"] == [{"map": 0}, w]
    assert [value["size"] for value in (x, y, w)] == [4 * 64 * 2, 4 * 4, 4 * 64 * 4]
    (asked,) = done.of("attribute")
    assert (asked["kernel"], asked["attribute"], asked["value"]) == ("widen", 8, 100_000)


def test_a_tensor_map_is_described_as_it_was_compiled(recorder: Recorder, library: Path) -> None:
    (described,) = call(recorder, library).of("map")
    assert (described["type"], described["shape"], described["strides"]) == (6, [64, 4], [128])
    assert (described["box"], described["steps"]) == ([32, 4], [1, 1])
    codes = [described[name] for name in ("interleave", "swizzle", "promotion", "fill")]
    assert codes == [0, 2, 3, 0]


def test_each_kernel_is_loaded_and_asked_for_once(recorder: Recorder, library: Path) -> None:
    done = call(recorder, library, 'for _ in range(3): module["rf_two"](x, y, w)')
    assert (len(done.of("launch")), len(done.of("load")), len(done.of("attribute"))) == (6, 2, 1), done.output


def test_threads_may_call_at_once(recorder: Recorder, library: Path) -> None:
    script = """
def work():
    for _ in range(20):
        module["rf_two"](x, y, w)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = call(recorder, library, script)
    assert done.code == 0, done.output
    assert (len(done.of("launch")), len(done.of("load"))) == (320, 2)
    # Threads start without a context: the device's own is made current for the call, and taken back after it.
    assert len(done.of("push")) == len(done.of("pop")) == 160


def test_the_current_stream_is_used(recorder: Recorder, library: Path) -> None:
    script = """
import tvm_ffi
stream = tvm.cuda(0).create_raw_stream()
tvm.cuda(0).set_raw_stream(stream)
module["rf_two"](x, y, w)
"""
    done = call(recorder, library, script)
    assert done.code == 0 and {event["stream"] for event in done.of("launch")} == {77}, done.output


#: Calls a program whose rows are open: with their number between the input and the output.
CALL_OPEN = """
def tensor(shape, dtype):
    return tvm.runtime.empty(shape, dtype, tvm.cuda(0))  # some are larger than what there is to fill

def run(rows, given=None, shape=None):
    given = rows if given is None else given
    x, y = tensor((rows, 64) if shape is None else shape, "float16"), tensor((rows,), "float32")
    try:
        module["rf_open"](x, given, y, tensor((rows, 64), "float32"))
    except RuntimeError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def open_library(program: GpuProgram, recorder: Recorder) -> Path:
    """The program with an open number of rows, which the second kernel takes."""
    rows = size_of(Dim("rows", 1, 4096))
    first, second = program.kernels
    described = replace(MAP, shape=(64, "rows"), strides=("(rows * 128)",))
    mapped = replace(first.arguments[0], tensor_map=described, shape=("rows", 64))
    first = replace(first, arguments=(mapped, first.arguments[1]), grid=("((rows + 3) / 4)", 3, 1))
    second = replace(second, entry="scale", arguments=(*second.arguments, Argument("rows", "int32", (), "size")))
    x, y, w = ((replace(tensor, shape=(rows, *tensor.shape[1:])),) for tensor in (X, Y, W))
    wide = GpuProgram("open", x, y, w, (first, second), (), (Dim("rows", 1, 4096),))
    return link(wide, recorder.folder)


def test_launches_follow_from_open_sizes(recorder: Recorder, open_library: Path) -> None:
    done = call(recorder, open_library, CALL_OPEN + "run(5); run(8)")
    assert done.code == 0 and not done.output, done.output
    widen, scale, again, _ = done.of("launch")
    assert (widen["grid"], scale["grid"], again["grid"]) == ([2, 3, 1], [2, 1, 1], [2, 3, 1])
    assert [event["shape"] for event in done.of("map")] == [[64, 5], [64, 8]]
    assert [event["strides"] for event in done.of("map")] == [[640], [1024]]
    assert [event["arguments"][2]["value"] for event in done.of("launch")[1::2]] == [5, 8]


def test_nothing_is_launched_for_nothing(recorder: Recorder, open_library: Path) -> None:
    done = call(recorder, open_library, CALL_OPEN + "run(0)")
    assert done.code == 0 and not done.output, done.output
    assert [event["kernel"] for event in done.of("launch")] == ["scale"], "whose blocks don't depend on the rows"


def assert_refused(done: Recording, expected: Collection[str]) -> None:
    """Each call was refused with its complaint, and nothing launched."""
    complaints = [line for line in done.output.splitlines() if line.startswith("kernel ")]
    assert len(complaints) == len(expected) and not done.of("launch"), done.output
    assert all(each in said for each, said in zip(expected, complaints, strict=True))


def test_sizes_that_do_not_fit_are_refused(recorder: Recorder, open_library: Path) -> None:
    wrong = {
        "5, 6": "open: tensor x has another shape",
        "5, -5": "open: a dimension isn't a number",
        "5, 5.0": "open: a dimension isn't a number",
        "5, shape=(5, 32)": "open: tensor x has another shape",
        "1 << 25": "open: tensor x has 2^31 elements or more: fix sizes with --dim",
    }
    done = call(recorder, open_library, CALL_OPEN + "; ".join(f"run({arguments})" for arguments in wrong))
    assert_refused(done, wrong.values())


def test_wrong_tensors_are_refused(recorder: Recorder, library: Path) -> None:
    wrong = {
        "x, y, y": "two: tensor w has another rank",
        'tensor((4, 32), "float16"), y, w': "two: tensor x has another shape",
        'tensor((4, 64), "float32"), y, w': "two: tensor x has another type",
        "x, y": "two: called with another number of tensors",
        "x, y, 1": "two: an argument isn't a tensor",
        'x, tvm.runtime.tensor(numpy.zeros(4, "float32")), w': "two: tensor y isn't in GPU memory",
        'tensor((320,), "float16")._create_view((4, 64), "float16", 8), y, w': "must be aligned to 16 bytes",
    }
    script = f"""
for arguments in {list(wrong)!r}:
    try:
        eval(f'module["rf_two"]({{arguments}})')
    except RuntimeError as error:
        print(error)
"""
    done = call(recorder, library, script)
    assert_refused(done, wrong.values())
    assert not done.of("launch")


@pytest.mark.parametrize(
    ("pretend", "complaint"),
    [
        ({"capability": 86}, "widen: compiled for sm_90a; device 0 (Recorder 0) has compute capability 8.6"),
        ({"shared": 90_000}, "widen: needs 100000 bytes of shared memory a block; the device has 90000"),
        ({"version": 12080}, "the NVIDIA driver supports CUDA 12.8, but 13.0 is needed"),
    ],
)
def test_a_device_that_does_not_fit_is_named(
    recorder: Recorder, library: Path, pretend: dict[str, int], complaint: str
) -> None:
    done = call(recorder, library, **pretend)
    assert done.code and complaint in done.output and not done.of("launch")


def test_the_object_depends_on_its_program_alone(program: GpuProgram) -> None:
    assert build_programs([program]) == build_programs([program])
    assert program_symbol("two") == "rf_two"


def test_what_the_runtime_has_no_room_for_is_refused(program: GpuProgram) -> None:
    deep = replace(program, inputs=(Tensor("x", (1,) * 9, "float16"),))
    with pytest.raises(ValueError, match="x has more than 8 dimensions"):
        program_tables([deep], lambda _: (2, 16))
    crowded = replace(program.kernels[0], arguments=program.kernels[0].arguments[:1] * 17)
    with pytest.raises(ValueError, match="widen takes more arguments"):
        program_tables([replace(program, kernels=(crowded,))], lambda _: (2, 16))
    with pytest.raises(ValueError, match="launch extents 'q' are unknown"):
        PackedKernel("k", "pp", "q")
    with pytest.raises(ValueError, match="parameters 'z' can't be passed"):
        PackedKernel("k", "z", "x")
