"""How many threads TVM runs in this process, and where. TVM looks when a thread first runs something."""

from __future__ import annotations

import os
import threading

from redfuser.errors import UsageError

#: Who may say how many threads there are: TVM heeds the first before the second.
THREADS_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")

#: How TVM's workers are to behave, where the environment doesn't say. ``TVM_BIND_THREADS`` ties them to cores unless it
#: is 0.
WORKERS = {"TVM_BIND_THREADS": "0"}

#: More would bring any machine to a stop: workers that wait for a call keep their cores busy for a while.
MOST_THREADS = 1024

#: ``several``: whether TVM runs more threads for this one than itself; it keeps them for each that ran something.
#: ``process``: where they are.
_workers = threading.local()


def use_threads(count: int | None) -> None:
    """Let TVM run threads on the cores that the operating system chooses; what was asked of :data:`WORKERS` stays.

    Args:
        count: how many; what the environment says if not given.

    Raises:
        UsageError: it isn't a number of threads.

    TVM would tie each worker to a core. Whoever calls it may be on that very core, and stays there through calls of
    less than some milliseconds: these took twice as long.
    How long one stays awake is left to TVM: with ``TVM_THREAD_POOL_SPIN_COUNT=3000`` a busy machine ends processes
    sooner, but kernels of some tenths of a millisecond took half as long again, when other work came between them.
    """
    require_threads(count)
    if count is not None:
        os.environ[THREADS_VARIABLES[0]] = str(count)
    for name, value in WORKERS.items():
        os.environ.setdefault(name, value)


def threads_asked_for() -> tuple[str, str] | None:
    """The variable that says how many threads to run, and what it says; ``None`` if none does."""
    return next(((name, os.environ[name]) for name in THREADS_VARIABLES if os.environ.get(name)), None)


def require_threads(count: object) -> None:
    """Refuse what is no number of threads; ``None`` leaves it open.

    Raises:
        UsageError: it isn't a whole number from 1 to :data:`MOST_THREADS`.
    """
    whole = isinstance(count, int) and not isinstance(count, bool)
    if count is not None and not (whole and 1 <= int(str(count)) <= MOST_THREADS):
        raise UsageError(
            f"threads: {count!r} isn't a whole number from 1 to {MOST_THREADS}", "leave it out for all cores"
        )


def require_workers(gpu: bool = False) -> None:
    """Refuse to run where TVM would wait for ever: a process has none of the threads of the one it was forked from.

    Args:
        gpu: whether a GPU will run, whose driver stays behind as well.

    Raises:
        UsageError: this thread ran something before its process was forked, and not on itself alone.
    """
    process = os.getpid()
    if getattr(_workers, "process", process) != process:
        raise UsageError(
            "this process was forked from a thread that had run a model; TVM's worker threads stayed behind",
            "start it by spawn (multiprocessing.get_context('spawn')), or fork from a thread that hasn't run any: "
            "what has to run before may do so in another thread",
        )
    if gpu or _several():
        _workers.process = process


def _several() -> bool:
    """Whether TVM runs more than one thread for this one. Makes them, as the first loop that shares its work would."""
    if not hasattr(_workers, "several"):
        from tvm_ffi import get_global_func

        _workers.several = get_global_func("runtime.NumThreads")() > 1
    return bool(_workers.several)
