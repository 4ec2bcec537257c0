"""How many threads TVM runs in this process, and where. No TVM: it looks when a thread first runs something."""

from __future__ import annotations

import os

#: Who may say how many threads there are: TVM heeds the first before the second.
THREADS_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")

#: Ties workers to cores unless it is 0.
_BINDING = "TVM_BIND_THREADS"


def use_threads(count: int | None) -> None:
    """Let TVM run threads on the cores that the operating system chooses; a binding asked for stays.

    Args:
        count: how many; what the environment says if not given.

    TVM would tie each worker to a core. Whoever calls it may be on that very core, and stays there through calls of
    less than some milliseconds: these took twice as long.
    """
    if count is not None:
        os.environ[THREADS_VARIABLES[0]] = str(count)
    os.environ.setdefault(_BINDING, "0")


def threads_asked_for() -> tuple[str, str] | None:
    """The variable that says how many threads to run, and what it says; ``None`` if none does."""
    return next(((name, os.environ[name]) for name in THREADS_VARIABLES if os.environ.get(name)), None)
