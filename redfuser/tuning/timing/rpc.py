"""Runs jobs on machines behind a TVM RPC tracker: many, or ones that this machine can only compile for.

Start ``python -m tvm.exec.rpc_tracker`` somewhere and ``python -m tvm.exec.rpc_server --tracker HOST:PORT --key KEY``
on each machine. A server that goes away costs a second attempt on another one, not the job.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redfuser.errors import MissingToolError, UsageError
from redfuser.records import encode
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing
from redfuser.tuning.timing.measure import serve

#: Sessions that may end while a job runs before the job is to blame; seconds that one may last.
STRIKES, SESSION_SECONDS = 2, 120


@dataclass
class RpcRunner:
    """Times kernels on servers of one key.

    Args:
        host, port: of the tracker.
        key: what the servers registered as.
        patience: seconds to wait for one of them.
    """

    host: str
    port: int
    key: str
    patience: float = 30.0
    _numbered: int = field(default=0, init=False)

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        """Time jobs that take turns on one server; those left after its death go to another.

        Raises:
            MissingToolError: no tracker answers, or it has no server of the key.
        """
        results: dict[int, Result] = {}
        strikes = [0] * len(jobs)
        while len(results) < len(jobs):
            left = [number for number in range(len(jobs)) if number not in results]
            events: list[dict[str, Any]] = []
            lost = self._attempt([jobs[number] for number in left], plan, events)
            for event in events:
                if "seconds" in event:
                    results[left[event["job"]]] = Timing(tuple(event["seconds"]))
            if lost is not None:
                running = left[next((event["begin"] for event in reversed(events) if "begin" in event), 0)]
                strikes[running] += 1
                if strikes[running] >= STRIKES:
                    results[running] = Failure(f"failed on {STRIKES} servers: {lost}")
        return [results[number] for number in range(len(jobs))]

    def close(self) -> None:
        """Sessions end with each request."""

    def _attempt(self, jobs: Sequence[Job], plan: Plan, events: list[dict[str, Any]]) -> str | None:
        """One session; gives why it ended early, or ``None``."""
        session = self._session()

        def open(library: str) -> Any:
            self._numbered += 1
            name = f"redfuser-{self._numbered}.so"
            session.upload(library, target=name)
            return session.load_module(name)

        # A kernel that fails and a server that dies look alike from here: both end the session.
        try:
            serve(encode(tuple(jobs)), encode(plan), events.append, open, session.cpu(), strict=True)
        except Exception as error:
            return " ".join(str(error).split())[-160:] or type(error).__name__
        return None

    def _session(self) -> Any:
        from tvm import rpc

        where = f"the tracker at {self.host}:{self.port}"
        try:
            tracker = rpc.connect_tracker(self.host, self.port)
        except (OSError, RuntimeError) as error:
            raise MissingToolError(
                f"{where} doesn't answer: {error}", "start python -m tvm.exec.rpc_tracker"
            ) from error
        # Asked for a key that nobody serves, a tracker never answers; a server whose session died comes back soon.
        end = time.monotonic() + self.patience
        while not (served := self._served(tracker)) and time.monotonic() < end:
            time.sleep(0.5)
        if not served:
            hint = f"start python -m tvm.exec.rpc_server --key {self.key} on a machine"
            raise MissingToolError(f"{where} has no server of key {self.key!r}", hint)
        return tracker.request(self.key, session_timeout=SESSION_SECONDS)

    def _served(self, tracker: Any) -> bool:
        return f"server:{self.key}" in {server["key"] for server in tracker.summary()["server_info"]}


def parse_tracker(text: str) -> tuple[str, int]:
    """``HOST:PORT``.

    Raises:
        UsageError: it isn't that.
    """
    host, found, port = text.rpartition(":")
    if not found or not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise UsageError(f"--tracker {text!r} isn't HOST:PORT", "for example --tracker tracker.example:9190")
    return host, int(port)
