"""What a tuning result depends on besides the cascade: the code that generates kernels, and the machine."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

from redfuser.machine.host import CPUINFO

#: What decides a kernel's code, below the package.
GENERATORS = ("expr", "extents.py", "indexing", "algebra", "tile", "codegen", "tuning/timing/measure.py")


@cache
def generator_digest() -> str:
    """SHA-256 of redfuser's own sources that shape kernels and their timing."""
    root = Path(__file__).resolve().parents[1]
    places = [root / name for name in GENERATORS]
    hasher = hashlib.sha256()
    for path in sorted(path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])):
        hasher.update(f"{path.relative_to(root).as_posix()}\n".encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


@cache
def machine_name() -> str:
    """Model of the processor and number of processors, as far as the system tells."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.is_file() else []
    told = [line.replace("\t", "") for line in lines]
    facts = dict.fromkeys(line for line in told if line.startswith(("model", "stepping", "cpu family")))
    count = sum(line.startswith("processor") for line in lines)
    return "; ".join([platform.machine(), *facts, f"{count} processors"])
