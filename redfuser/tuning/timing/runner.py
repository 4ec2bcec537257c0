"""Runs jobs in a process of its own: one that dies or hangs costs that job alone."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any, Protocol

from redfuser.machine.threads import WORKERS
from redfuser.records import encode
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing

#: Longest silence of the worker, in seconds, before it counts as hanging: while it starts, and while a kernel runs.
START_PATIENCE, PATIENCE = 120.0, 30.0


class Runner(Protocol):
    """Where kernels are timed."""

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        """One result a job, in order. Never raises for what a kernel does."""

    def close(self) -> None:
        """Give back what it holds."""


class LocalRunner:
    """Times kernels in a child process on this machine.

    Args:
        threads: worker threads of the kernels.
        patience: seconds without an answer after which the job that runs is given up.
    """

    def __init__(self, threads: int, patience: float = PATIENCE) -> None:
        self.threads, self.patience = threads, patience
        self._process: subprocess.Popen[str] | None = None
        self._ready = False
        self._lines: queue.Queue[str | None] = queue.Queue()

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        """Time jobs that take turns; those left after a death are started again without the culprit."""
        results: dict[int, Result] = {}
        while len(results) < len(jobs):
            left = [number for number in range(len(jobs)) if number not in results]
            answered, culprit = self._attempt([jobs[number] for number in left], plan)
            results |= {left[number]: result for number, result in answered.items()}
            if culprit is not None:
                number, failure = culprit
                results[left[number]] = failure
        return [results[number] for number in range(len(jobs))]

    def close(self) -> None:
        """End the child process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _attempt(self, jobs: Sequence[Job], plan: Plan) -> tuple[dict[int, Result], tuple[int, Failure] | None]:
        """Answers to one request, and the job that ended the process, if one did."""
        results: dict[int, Result] = {}
        running = 0
        self._send({"jobs": encode(tuple(jobs)), "plan": encode(plan)})
        while True:
            event = self._receive()
            if isinstance(event, Failure):
                self.close()
                return results, (running, event)
            if "ready" in event:
                self._ready = True
            elif "begin" in event:
                running = event["begin"]
            elif "seconds" in event:
                results[event["job"]] = Timing(tuple(event["seconds"]))
            elif "failure" in event:
                results[event["job"]] = Failure(event["failure"])
            else:
                return results, None

    def _send(self, request: dict[str, Any]) -> None:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            # It died between two requests, through no fault of these jobs.
            self.close()
            self._send(request)

    def _receive(self) -> dict[str, Any] | Failure:
        assert self._process is not None
        patience = self.patience if self._ready else START_PATIENCE
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            return Failure(f"gave no answer within {patience:g} s")
        if line is None:
            code = self._process.wait()
            return Failure(f"its process died ({f'signal {-code}' if code < 0 else f'exit code {code}'})")
        event: dict[str, Any] = json.loads(line)
        return event

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {**WORKERS, **os.environ, "TVM_NUM_THREADS": str(self.threads)}
            command = [sys.executable, "-m", "redfuser.tuning.timing.worker"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
            )
            self._ready, self._lines = False, queue.Queue()
            threading.Thread(target=_pump, args=(self._process.stdout, self._lines), daemon=True).start()
        return self._process


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    """Lines as they come, and ``None`` at the end."""
    for line in stream:
        lines.put(line)
    lines.put(None)
