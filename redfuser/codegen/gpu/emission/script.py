"""The TileLang script of one kernel, and the names in it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from redfuser.codegen.gpu.emission.pairs import HELPERS
from redfuser.expr import Tensor
from redfuser.extents import Dim

#: What parameters of C++ can't be called; TileLang and TVM hand on the names of open dimensions as they are.
CPP = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq blockDim blockIdx gridDim
threadIdx warpSize
"""
#: Names that a script uses itself, or can't.
RESERVED = frozenset({"T", "tilelang", "range", *HELPERS, *keyword.kwlist, *CPP.split()})


@dataclass(frozen=True)
class Script:
    """One kernel in TileLang, a Python module that defines one function of the kernel's name.

    Args:
        name: of the kernel.
        text: the module.
        parameters: the tensor behind each parameter, in order.
        names: the parameters' names in the script.
        shared_bytes: shared memory declared, each buffer once however often a pipeline keeps it.
        registers: a thread's share of the values declared in registers.
        fast: whether results are in half precision, where a last place of float32 and numbers below its normal
            range don't show.
        products: what matrix products are computed in, sorted: ``float16`` and the like on tensor cores, and of float32
            ``tf32``, ``3xtf32`` or, without tensor cores, ``ieee``.
        sizes: dimensions that are known on the call only, by what they are called in the script.
    """

    name: str
    text: str
    parameters: tuple[Tensor, ...]
    names: tuple[str, ...]
    shared_bytes: int = 0
    registers: int = 0
    fast: bool = False
    products: tuple[str, ...] = ()
    sizes: Mapping[str, Dim] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


class Names:
    """Unique identifiers for the names of tensors, buffers and axes."""

    def __init__(self, *taken: str) -> None:
        self.taken = {*RESERVED, *taken}

    def new(self, name: str) -> str:
        """An identifier like ``name`` that nothing else has."""
        base = re.sub(r"\W", "_", name)
        base = f"_{base}" if not base or base[0].isdigit() else base
        unique, number = base, 1
        while unique in self.taken:
            unique, number = f"{base}_{number}", number + 1
        self.taken.add(unique)
        return unique


class Lines:
    """Indented lines being written.

    Args:
        depth: levels that the first line is indented by.
    """

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def add(self, *texts: str) -> None:
        """Lines at the present depth."""
        self.lines += ["    " * self.depth + text if text else "" for text in texts]

    @contextmanager
    def indented(self, head: str) -> Iterator[None]:
        """``head``, and inside the ``with`` one level more."""
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
