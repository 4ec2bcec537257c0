"""The NVIDIA driver through its C functions: device memory, kernels, times."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
