"""What a shared library leaves undefined, read from its dynamic symbol table (64-bit little-endian ELF)."""

from __future__ import annotations

import struct
from pathlib import Path

DYNSYM = 11


def undefined_symbols(library: Path) -> list[str]:
    """Names that whoever loads the library must provide.

    Raises:
        ValueError: the file isn't a 64-bit ELF library.
    """
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{library.name} isn't a 64-bit ELF file")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQII", data, start + size * n) for n in range(count)]
    names = []
    for _, kind, _, _, offset, length, link, _ in sections:
        if kind != DYNSYM:
            continue
        strings = sections[link][4]
        for place in range(offset + 24, offset + length, 24):  # the first entry is empty
            name, _, _, section = struct.unpack_from("<IBBH", data, place)
            if section == 0:
                names.append(data[strings + name : data.index(b"\0", strings + name)].decode())
    return sorted(names)
