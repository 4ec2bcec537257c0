"""Servers behind a tracker: kernels are timed there, and a server that dies costs an attempt."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from redfuser.errors import MissingToolError
from redfuser.targets import CpuTarget, load_target
from redfuser.tuning.calibrate import programs
from redfuser.tuning.job import Failure, Job, Plan, Timing
from redfuser.tuning.rpc import RpcRunner

pytestmark = pytest.mark.slow
QUICK = Plan(3, 0.5)


@dataclass
class Farm:
    """A tracker and its servers, each in a process group of its own."""

    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tvm.exec.{module}", "--host", "127.0.0.1", *map(str, arguments)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a server and what it started."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.processes.remove(process)

    def wait_for(self, servers: int) -> None:
        """Until the tracker knows so many."""
        from tvm import rpc

        for _ in range(90):
            try:
                if len(rpc.connect_tracker("127.0.0.1", self.port).summary()["server_info"]) == servers:
                    return
            except RuntimeError:
                pass
            time.sleep(1)
        raise TimeoutError("the servers didn't register")


@pytest.fixture
def farm() -> Iterator[Farm]:
    """A tracker alone."""
    pytest.importorskip("tornado")
    pytest.importorskip("cloudpickle")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Farm(port)
    made.start("rpc_tracker", "--port", port, "--port-end", port + 1)
    try:
        yield made
    finally:
        for process in list(made.processes):
            made.kill(process)


def test_a_server_that_dies_costs_an_attempt(farm: Farm, tmp_path: Path) -> None:
    from redfuser.tuning.builder import Builder

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    built = Builder(target, tmp_path).build(programs(target)["add"])
    assert isinstance(built, Job)
    first, second = (farm.start("rpc_server", "--tracker", f"127.0.0.1:{farm.port}", "--key", "k") for _ in range(2))
    farm.wait_for(2)
    runner = RpcRunner("127.0.0.1", farm.port, "k")
    assert all(isinstance(result, Timing) for result in runner.run([built, built], QUICK))

    before, deadly, after = runner.run([built, fatal(tmp_path), built], QUICK)
    assert isinstance(before, Timing) and isinstance(after, Timing)
    assert isinstance(deadly, Failure) and "died 2 times" in deadly.text

    farm.kill(first)
    assert isinstance(runner.run([built], QUICK)[0], Timing)
    farm.kill(second)
    farm.wait_for(0)
    runner.patience = 1.0
    with pytest.raises(MissingToolError, match="no server of key 'k'"):
        runner.run([built], QUICK)


def fatal(folder: Path) -> Job:
    """A library that ends the process that loads it."""
    source, library = folder / "fatal.c", folder / "fatal.so"
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return Job(str(library), "f", (), 0)
