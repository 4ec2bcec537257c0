"""Reading PTX: which of an architecture's units a kernel uses, and whether it keeps variables in memory."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

#: What a kernel with matrix products must hold, and one that copies ahead, by the first architecture that has it.
UNITS = {
    90: ("wgmma.mma_async", "cp.async.bulk.tensor"),
    80: ("mma.sync", "cp.async.ca|cp.async.cg"),
}


@dataclass(frozen=True)
class Ptx:
    """A module's target and how often each instruction occurs in it."""

    target: str
    instructions: Counter[str]

    def count(self, pattern: str) -> int:
        """Instructions whose name starts with the pattern, a regular expression."""
        return sum(number for name, number in self.instructions.items() if re.match(pattern, name))

    @property
    def local(self) -> int:
        """Loads from and stores to local memory: arrays that the compiler couldn't keep in registers."""
        return self.count(r"(ld|st)(\.\w+)*\.local\b")


def read_ptx(text: str) -> Ptx:
    """Count the instructions of a PTX module.

    Raises:
        ValueError: the text has no ``.target``.
    """
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    if target is None:
        raise ValueError("not PTX: it has no .target")
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    # An instruction follows a brace, a semicolon, a label or the line's start, perhaps behind a predicate.
    found = re.findall(r"(?:^|[;{}:])\s*(?:@!?%?\w+\s+)?([a-z]\w*(?:\.[\w:]+)+)", plain, re.MULTILINE)
    return Ptx(target[1], Counter(found))


def problems(text: str, arch: str, multiplies: bool = True, copies: bool = True, tf32: bool = False) -> list[str]:
    """What is wrong with the PTX of a kernel; empty if nothing is.

    Args:
        text: PTX of one kernel.
        arch: what it must be for, such as ``sm_90a``.
        multiplies: it multiplies matrices of a type that the tensor cores take.
        copies: it copies tiles while it computes with earlier ones.
        tf32: it multiplies float32, of which WGMMA takes no operand whose neighbours don't lie along the axis summed.
    """
    ptx = read_ptx(text)
    found = [] if ptx.target == arch else [f"it is for {ptx.target}, not {arch}"]
    number = int(re.sub(r"\D", "", arch))
    units = next(units for first, units in UNITS.items() if number >= first)
    if tf32:
        units = (UNITS[80][0] if ptx.count(UNITS[80][0]) else units[0], units[1])
    for wanted, unit in zip((multiplies, copies), units, strict=True):
        if wanted and not ptx.count(unit.replace(".", r"\.")):
            found.append(f"it has no {unit}")
    if ptx.local:
        found.append(f"it loads from or stores to local memory {ptx.local} times")
    return found
