"""Which loops TileLang may overlap with copies: it says too early that a tile may be overwritten in some."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

#: A copy of a box of memory, and the tile that it fills.
_COPY = re.compile(r"T\.copy\((\w+)\[.*\], (\w+)\)")
#: An element, and what it becomes.
_ELEMENT = re.compile(r"(\w+)\[[^=]*\] = (.+)")


def overwritten_early(body: Sequence[str], memory: Collection[str], shared: Collection[str]) -> bool:
    """Whether a pipelined loop reads a tile after the moment from which TileLang lets it be filled again.

    On Hopper some warps fill tiles ahead: by copies, and element by element where values come from memory alone. They
    are told that a turn's tiles are free once its copied ones have been read, whatever is still to be read of the
    others.

    Args:
        body: lines of the loop.
        memory: names of tensors in memory.
        shared: names of buffers in shared memory.
    """
    copied, filled = {}, {}
    for number, line in enumerate(body):
        if (copy := _COPY.search(line)) is not None and copy[1] in memory:
            copied[copy[2]] = number
        elif (element := _ELEMENT.search(line)) is not None and element[1] in shared:
            sources = {name for name in re.findall(r"(\w+)\[", element[2]) if name in memory or name in shared}
            if sources and sources <= set(memory):
                filled[element[1]] = number
    if not copied or not filled:
        return False
    return _last_read(body, filled) > _last_read(body, copied)


def _last_read(body: Sequence[str], tiles: dict[str, int]) -> int:
    """The last line that reads any of these tiles, each written in the line given."""
    reads = (
        number
        for tile, written in tiles.items()
        for number, line in enumerate(body)
        if number != written and re.search(rf"\b{tile}\b", line)
    )
    return max(reads, default=-1)
