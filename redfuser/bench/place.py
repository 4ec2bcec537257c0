"""Where the sides of a benchmark run: this machine's processor, or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redfuser.machine.host import usable_cores
from redfuser.report.value import TargetInfo
from redfuser.tuning.fingerprint import machine_name

#: Calls between two waits for a GPU: the processor runs ahead, and a wait costs several microseconds.
BURST = 10


@dataclass(frozen=True)
class Place:
    """One device.

    Args:
        device: TVM's.
        name: of the device, for people.
        torch: what PyTorch calls it.
        threads: of the processor; 0 for a GPU.
        burst: calls to start before waiting for them.
    """

    device: Any
    name: str
    torch: str
    threads: int
    burst: int = 1

    def wait(self) -> None:
        """Until everything started there is done."""
        self.device.sync()

    def __str__(self) -> str:
        return f"{self.threads} threads on {self.name}" if self.threads else self.name


def processor(threads: int | None = None) -> Place:
    """This machine's processor. Imports TVM."""
    import tvm

    return Place(tvm.cpu(), machine_name(), "cpu", threads or usable_cores())


def place_of(target: TargetInfo, wanted: str | None, threads: int | None = None) -> Place:
    """The device that code for a target is measured on. Imports TVM.

    Args:
        wanted: ``cpu``, ``cuda`` or ``cuda:1``; ``None`` is the first device of the target's kind.
        threads: of the processor, if it is that.

    Raises:
        UsageError: the device isn't of the target's kind.
        MissingToolError: there is no such device or driver, or it can't run the target's code.
    """
    from redfuser.artifact.device import check_device, open_device

    number = check_device(target, wanted)
    if target.kind == "cpu":
        return processor(threads)
    device = open_device(target, number)
    return Place(device, f"{device.device_name} ({device.compute_version})", f"cuda:{number}", 0, BURST)
