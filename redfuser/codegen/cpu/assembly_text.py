"""What machine code uses, counted in the compiler's assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """How an architecture writes what is counted.

    Args:
        multiply_add: a fused multiply-add's mnemonic.
        spill: the compiler's remark beside a register that is stored for want of registers.
        frame: an instruction that makes room on the stack; the group is the bytes.
        registers: vector registers by width in bits.
    """

    multiply_add: re.Pattern[str]
    spill: re.Pattern[str]
    frame: re.Pattern[str]
    registers: Mapping[int, re.Pattern[str]]


DIALECTS = {
    "x86_64": Dialect(
        re.compile(r"^\tvfn?m", re.MULTILINE),
        re.compile("-byte Spill"),
        re.compile(r"^\tsubq\t\$(\w+), %rsp", re.MULTILINE),
        {512: re.compile("%zmm"), 256: re.compile("%ymm"), 128: re.compile("%xmm")},
    ),
    "aarch64": Dialect(
        re.compile(r"^\tfn?ml[as]\b|^\tfn?madd\b|^\tfn?msub\b", re.MULTILINE),
        re.compile("-byte Folded Spill"),
        re.compile(r"^\tsub\tsp, sp, #(\w+)", re.MULTILINE),
        {128: re.compile(r"\bq\d|\bv\d+\.(16b|8h|4s|2d)")},
    ),
}


def read_assembly(text: str, machine: str) -> dict[str, int]:
    """Counts: instructions, fused multiply-adds, register spills, bytes of stack, widest vector in bits.

    Args:
        text: as LLVM prints it.
        machine: as :func:`platform.machine` names it.
    """
    dialect = DIALECTS[machine]
    return {
        "instructions": len(re.findall(r"^\t[a-z]\w*", text, re.MULTILINE)),
        "fused_multiply_adds": len(dialect.multiply_add.findall(text)),
        "spills": len(dialect.spill.findall(text)),
        "stack_bytes": max((int(size, 0) for size in dialect.frame.findall(text)), default=0),
        "vector_bits": max((bits for bits, name in dialect.registers.items() if name.search(text)), default=64),
    }
