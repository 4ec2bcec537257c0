"""The process that reads a model: ``python -m redfuser.frontend.reading.worker FOLDER``. See :mod:`.isolation`."""

from __future__ import annotations

import math
import resource
import sys
from pathlib import Path

from redfuser.errors import MissingToolError, ModelError, RedFuserError
from redfuser.frontend.lowering import prepare
from redfuser.frontend.model import MIB, LoadLimits
from redfuser.frontend.reading.exchange import Request, read_request, write_prepared, write_refusal
from redfuser.frontend.reading.loader import load_model


def main(folder: Path) -> None:
    """Answer the request in a folder; every failure but the process's death is an answer too."""
    request = read_request(folder)
    confine(request.limits)
    try:
        _answer(request, folder)
    except RedFuserError as error:
        write_refusal(folder, error)
    except MemoryError:
        write_refusal(folder, _too_large(request))
    except OSError as error:
        write_refusal(folder, MissingToolError(f"the model's copy cannot be written: {error.strerror}"))
    except Exception as error:  # whatever the parsers, the checker and the folding make of a hostile file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        write_refusal(folder, ModelError(f"{request.path} cannot be read: {type(error).__name__}: {reason[:200]}"))


def confine(limits: LoadLimits) -> None:
    """Bound this process's memory, processor time and files, for good; it leaves no core dump."""
    memory = limits.memory()
    seconds = math.ceil(limits.seconds)
    for kind, bound, last in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, seconds, seconds + 1),  # SIGXCPU says why, SIGKILL a second later would not
        (resource.RLIMIT_FSIZE, memory, memory),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _, hard = resource.getrlimit(kind)
        lowest = last if hard == resource.RLIM_INFINITY else min(last, hard)
        resource.setrlimit(kind, (min(bound, lowest), lowest))


def _answer(request: Request, folder: Path) -> None:
    model = load_model(Path(request.path), request.limits)
    write_prepared(folder, prepare(model, request.dims, request.shapes, request.values, request.convolves_bytes))


def _too_large(request: Request) -> ModelError:
    limit = request.limits.memory() // MIB
    return ModelError(f"reading {request.path} needs more than {limit} MiB of memory", "the file is damaged or hostile")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
