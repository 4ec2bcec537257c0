"""Servers behind a tracker: kernels are timed there, and a server that dies costs an attempt."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from redfuser.errors import MissingToolError
from redfuser.targets import CpuTarget, load_target
from redfuser.tuning.costs.calibrate import programs
from redfuser.tuning.timing.job import Failure, Job, Plan, Timing
from redfuser.tuning.timing.rpc import RpcRunner

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


@pytest.mark.slow
def test_a_server_that_dies_costs_an_attempt(farm: Farm, tmp_path: Path) -> None:
    from redfuser.tuning.timing.builder import Builder

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    built = Builder(target, tmp_path).build(programs(target)["add"])
    assert isinstance(built, Job)
    first, second = (farm.start("rpc_server", "--tracker", f"127.0.0.1:{farm.port}", "--key", "k") for _ in range(2))
    farm.wait_for(2)
    runner = RpcRunner("127.0.0.1", farm.port, "k")
    assert all(isinstance(result, Timing) for result in runner.run([built, built], QUICK))

    farm.kill(first)
    assert isinstance(runner.run([built], QUICK)[0], Timing)
    farm.kill(second)
    farm.wait_for(0)
    runner.patience = 1.0
    with pytest.raises(MissingToolError, match="no server of key 'k'"):
        runner.run([built], QUICK)


class Flaky(RpcRunner):
    """Sessions without a server: some end early, and so does every one that loads ``fatal``."""

    def __init__(self, ends: int = 0) -> None:
        super().__init__("nowhere", 1, "k")
        self.ends, self.sessions = ends, 0

    def _session(self) -> Session:
        self.sessions += 1
        return Session(self.sessions <= self.ends)


@dataclass
class Session:
    """Takes libraries and times them at once."""

    ends: bool
    libraries: dict[str, str] = field(default_factory=dict)

    def upload(self, library: str, target: str) -> None:
        self.libraries[target] = library

    def load_module(self, name: str) -> Session:
        if self.ends or self.libraries[name] == "fatal":
            raise RuntimeError("connection lost")
        return self

    def cpu(self) -> None:
        """Arrays stay here."""

    def time_evaluator(self, name: str, device: object, number: int, repeat: int) -> Callable[..., SimpleNamespace]:
        return lambda *_: SimpleNamespace(results=[1e-3])


def test_a_job_is_blamed_when_its_second_session_ends() -> None:
    jobs = [Job(name, "f", (), 0) for name in ("good", "fatal", "fine")]
    runner = Flaky()
    good, deadly, fine = runner.run(jobs, QUICK)
    assert isinstance(good, Timing) and isinstance(fine, Timing) and runner.sessions == 3
    assert isinstance(deadly, Failure) and deadly.text == "failed on 2 servers: connection lost"


def test_one_session_that_ends_costs_no_job() -> None:
    runner = Flaky(ends=1)
    assert all(isinstance(result, Timing) for result in runner.run([Job("good", "f", (), 0)] * 2, QUICK))
    assert runner.sessions == 2
