"""What a compiled module holds beside its machine code, as an assembly file: constants, and what calls the kernels.

TVM's own packing makes an LLVM constant of it, which takes several times the memory of the weights; an assembler
copies it from a file.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

#: What a loaded library is searched for: the size of what follows, the tree of modules, and each module.
SYMBOL = "__tvm_ffi__library_bin"

#: The modules' tree: a list of how many children the ones before have, and a list of the children.
_TREE = struct.pack("<4Q2Q", 3, 0, 1, 1, 1, 1)

#: Stands for all modules that are machine code.
_CODE = "_lib"

#: Read-only data that no code refers to by a 32-bit distance: it may be of any size. Only x86-64 has such a section;
#: elsewhere 4 GB lie within reach.
_SOURCE = """\
#ifdef __x86_64__
.section .lrodata, "al", @progbits
#else
.section .rodata, "a", @progbits
#endif
.globl {symbol}
.type {symbol}, @object
.balign 8
{symbol}:
.byte {head}
.incbin "{path}"
.byte {tail}
.size {symbol}, . - {symbol}
.section .note.GNU-stack, "", @progbits
"""


def pack_imports(executable: Any, _: bool, prefix: str, workspace: str) -> str:
    """Write the data of a virtual machine's executable; a hook for ``tvm.runtime.Module.export_library``.

    Args:
        executable: all that it imports is machine code.
        prefix: of the symbol.
        workspace: a folder to write to.

    Returns:
        Path of the assembly file.
    """
    data, source = Path(workspace, "executable.bin"), Path(workspace, "data.S")
    executable.write_to_file(str(data))
    size = data.stat().st_size
    before = _TREE + _text(executable.kind) + struct.pack("<Q", size)
    after = _text(_CODE)
    total = struct.pack("<Q", len(before) + size + len(after))
    head, tail = (", ".join(map(str, part)) for part in (total + before, after))
    symbol = f"{prefix}{SYMBOL}"
    path = str(data).replace("\\", r"\\").replace('"', r"\"")
    source.write_text(_SOURCE.format(symbol=symbol, head=head, path=path, tail=tail), encoding="utf-8")
    return str(source)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()
