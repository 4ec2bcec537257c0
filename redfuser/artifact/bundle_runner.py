"""Runs a bundle of GPU kernels on the machine that has the GPU: correct against float64, and how fast.

This file is the bundle's ``run.py``. It needs Python, NumPy and the NVIDIA driver, and nothing else:

    python run.py [--device N] [--repeat N] [--json FILE]

Every kernel runs on several sets of inputs; its outputs are held against values computed in float64, where an error
is allowed that the kernel's own precision explains. Times are medians of single launches between events.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MAJOR, MINOR, SHARED_OPT_IN, CLUSTER = 75, 76, 8, 4
WARM_UP = 3


class CudaError(Exception):
    """A call of the driver failed, or the device doesn't fit."""


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` with the extents of a cluster."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_uint),
        ("extent", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class Device:
    """One GPU through the driver's C functions, its primary context current."""

    def __init__(self, number: int) -> None:
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError("there is no NVIDIA driver: libcuda.so.1 cannot be opened") from error
        self.call("cuInit", 0)
        self.number = number
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            CudaError: it fails.
        """
        code = getattr(self.cuda, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(name))
            raise CudaError(f"{function}: {(name.value or b'error').decode()} ({code})")

    def attribute(self, which: int) -> int:
        """An attribute of the device."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, self.number)
        return value.value

    def describe(self) -> dict[str, str]:
        """Name, compute capability and driver."""
        name, version = ctypes.create_string_buffer(128), ctypes.c_int()
        self.call("cuDeviceGetName", name, len(name), self.number)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        capability = f"{self.attribute(MAJOR)}.{self.attribute(MINOR)}"
        driver = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        return {"device": name.value.decode(), "capability": capability, "driver": driver}

    def upload(self, content: bytes) -> int:
        """Device memory with this content."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(content), 1)))
        self.call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(len(content)))
        return address.value

    def download(self, address: int, size: int) -> bytes:
        """The content of device memory."""
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return content.raw

    def free(self, addresses: Sequence[int]) -> None:
        """Give device memory back."""
        for address in addresses:
            self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def milliseconds(self, launch: Any, repeat: int) -> list[float]:
        """Times of single calls of ``launch``, after a few that don't count."""
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        times = []
        for turn in range(WARM_UP + repeat):
            self.call("cuEventRecord", events[0], None)
            launch()
            self.call("cuEventRecord", events[1], None)
            self.call("cuEventSynchronize", events[1])
            taken = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(taken), *events)
            times += [taken.value] if turn >= WARM_UP else []
        return times


class Program:
    """The kernels of one fused cascade, loaded."""

    def __init__(self, device: Device, described: Mapping[str, Any], folder: Path) -> None:
        self.device, self.tensors = device, described["tensors"]
        self.steps = [(self._load(step, folder), step) for step in described["kernels"]]

    def _load(self, step: Mapping[str, Any], folder: Path) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.device.call("cuModuleLoadData", ctypes.byref(module), (folder / step["cubin"]).read_bytes())
        self.device.call("cuModuleGetFunction", ctypes.byref(function), module, step["entry"].encode())
        if step["shared"] > 48 * 1024:
            self.device.call("cuFuncSetAttribute", function, SHARED_OPT_IN, step["shared"])
        return function

    def launch(self, addresses: Mapping[str, int]) -> None:
        """Start every kernel on the default stream."""
        for function, step in self.steps:
            self._launch(function, step, addresses)

    def _launch(self, function: ctypes.c_void_p, step: Mapping[str, Any], addresses: Mapping[str, int]) -> None:
        keep = [self._argument(argument, addresses[argument["tensor"]]) for argument in step["arguments"]]
        values = (ctypes.c_void_p * len(keep))(*(ctypes.addressof(value) for value in keep))
        triple = ctypes.c_uint * 3
        config = LaunchConfig(triple(*step["grid"]), triple(*step["block"]), step["shared"], None, None, 0)
        attribute = LaunchAttribute(CLUSTER, 0, triple(*step["cluster"]))
        if max(step["cluster"]) > 1:
            config.attributes, config.count = ctypes.addressof(attribute), 1
        self.device.call("cuLaunchKernelEx", ctypes.byref(config), function, values, None)

    def _argument(self, argument: Mapping[str, Any], address: int) -> Any:
        described = argument["tensor_map"]
        if described is None:
            return ctypes.c_uint64(address)
        room = (ctypes.c_char * 192)()
        encoded = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rank = len(described["shape"])
        wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        codes = (described[name] for name in ("interleave", "swizzle", "l2_promotion", "fill"))
        self.device.call(
            "cuTensorMapEncodeTiled",
            encoded,
            described["data_type"],
            rank,
            ctypes.c_uint64(address),
            wide(*described["shape"]),
            wide(*described["strides"]),
            narrow(*described["box"]),
            narrow(*described["element_strides"]),
            *codes,
        )
        return encoded


def values_of(raw: bytes, tensor: Mapping[str, Any]) -> Array:
    """Device memory as numbers that NumPy has."""
    if tensor["table"] is not None:
        table = np.array([np.nan if value is None else value for value in tensor["table"]], np.float64)
        return table[np.frombuffer(raw, np.uint8)].reshape(tensor["shape"])
    if tensor["dtype"] == "bfloat16":
        bits = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(tensor["shape"])
    return np.frombuffer(raw, tensor["dtype"]).reshape(tensor["shape"])


def judge(got: Array, exact: Array, rounded: Array, where: Array, allowed: float) -> tuple[float, str]:
    """Root mean square error on the elements that were computed in float64, and what is wrong; empty if nothing.

    Args:
        rounded: the same in the kernel's own precision, whose infinities are as right as float64's.
        allowed: error.
    """
    values, wanted, other = (array[where].astype(np.float64) for array in (got, exact, rounded))
    if exact.dtype.kind in "biu":
        wrong = int(((values != wanted) & (values != other)).sum())
        return 0.0, f"{wrong} of {values.size} elements differ" if wrong else ""
    finite = np.isfinite(values) & np.isfinite(wanted)
    rmse = float(np.sqrt(np.mean(np.square(values[finite] - wanted[finite])))) if finite.any() else 0.0
    same = (~np.isfinite(values) & (values == wanted)) | (np.isnan(values) & np.isnan(wanted)) | finite
    same |= (values == other) | (np.isnan(values) & np.isnan(other))
    if not same.all():
        return rmse, f"NaN or infinity in the wrong place in {int((~same).sum())} of {same.size} elements"
    return rmse, "" if rmse <= allowed else f"the error is larger than {allowed:.2e}"


def run_case(device: Device, program: Program, folder: Path, case: Mapping[str, Any], repeat: int) -> dict[str, Any]:
    """Check one set of inputs, and time it if ``repeat`` isn't 0."""
    stored = np.load(folder / case["file"], allow_pickle=False)
    addresses = {}
    for tensor in program.tensors:
        content = (
            stored[f"input:{tensor['name']}"].tobytes() if tensor["role"] == "input" else b"\xff" * tensor["bytes"]
        )
        addresses[tensor["name"]] = device.upload(content)
    program.launch(addresses)
    device.call("cuCtxSynchronize")
    worst, problems = 0.0, []
    for tensor in program.tensors:
        name = tensor["name"]
        if tensor["role"] != "output":
            continue
        got = values_of(device.download(addresses[name], tensor["bytes"]), tensor)
        exact, rounded, written = (stored[f"{part}:{name}"] for part in ("exact", "rounded", "written"))
        rmse, problem = judge(got, exact, rounded, written, case["allowed"][name])
        worst = max(worst, rmse)
        problems += [f"{name}: {problem}"] if problem else []
    times = device.milliseconds(lambda: program.launch(addresses), repeat) if repeat else []
    device.free(tuple(addresses.values()))
    return {"case": case["file"], "rmse": worst, "problems": problems, "times_ms": times}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; 0 if all results are right, 1 if one isn't, 2 if nothing could be run."""
    parser = argparse.ArgumentParser(description="Check and time the GPU kernels of this bundle.")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--repeat", type=int, default=50, help="launches to time; 0 for none")
    parser.add_argument("--json", type=Path, help="also write the results there")
    chosen = parser.parse_args(arguments)
    folder = Path(__file__).resolve().parent
    bundle = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    try:
        device = Device(chosen.device)
        found = device.describe()
        if found["capability"] not in bundle["capabilities"]:
            raise CudaError(f"the kernels are for {bundle['arch']}; {found['device']} has {found['capability']}")
        print(f"{bundle['model']} for {bundle['target']}, on {found['device']} ({found['driver']})")
        results = {
            described["name"]: run_program(device, described, folder, chosen.repeat) for described in bundle["programs"]
        }
    except CudaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if chosen.json is not None:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        written = {"schema": "redfuser.bundle-result/1", "bundle": bundle["digest"], **found, "date": date}
        chosen.json.write_text(json.dumps({**written, "programs": results}, indent=2) + "\n", encoding="utf-8")
    failed = [name for name, cases in results.items() if any(case["problems"] for case in cases)]
    print(f"FAILED: {', '.join(failed)}" if failed else f"PASSED: {len(results)} kernels")
    return 1 if failed else 0


def run_program(device: Device, described: Mapping[str, Any], folder: Path, repeat: int) -> list[dict[str, Any]]:
    """All cases of a program, the first one timed; prints a line."""
    program = Program(device, described, folder)
    cases = described["cases"]
    results = [run_case(device, program, folder, case, 0 if n else repeat) for n, case in enumerate(cases)]
    times = results[0]["times_ms"]
    median = statistics.median(times) if times else 0.0
    rate = described["bytes"] / (median * 1e6) if median else 0.0
    speed = f"  {median * 1e3:9.2f} us  {rate:7.1f} GB/s" if times else ""
    problems = [problem for result in results for problem in result["problems"]]
    rmse = max(result["rmse"] for result in results)
    print(f"{described['name']:20} {described['kind']:12} rmse {rmse:.2e}{speed}  {'; '.join(problems) or 'right'}")
    return results


if __name__ == "__main__":
    sys.exit(main())
