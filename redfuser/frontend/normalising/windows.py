"""Windows that move over an image, and what they show of it, channels last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from redfuser.frontend.normalising.definition import Definition

if TYPE_CHECKING:
    from onnx import TypeProto


@dataclass(frozen=True)
class Window:
    """The places of a window along each axis of an image, all sizes known.

    Args:
        extents: of the image.
        counts: of places.
        sizes: of the window.
        before, after: padding.
        strides, dilations: from one place to the next, and from one element of the window to the next.
    """

    extents: tuple[int, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def dims_of(kind: TypeProto) -> list[int | None]:
    """Of a tensor; None for what is known on the call only."""
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]


def window_of(write: Definition, sizes: Sequence[int | None], results: Sequence[int | None]) -> Window | None:
    """That of a node; None where a size is known on the call only or is zero.

    Args:
        write: what stands in for the node, whose first input is the image, channels second.
        sizes: of the window.
        results: shape of what the node gives.
    """
    rank = len(sizes)
    known = [[size for size in each if size] for each in (write.shape(0)[2:], results[2:], sizes)]
    if not rank or any(len(each) != rank for each in known):
        return None
    extents, counts, lengths = known
    strides, dilations = (list(write.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    places = list(zip(counts, strides, lengths, dilations, strict=True))
    # What the windows reach over in all, less the image.
    reach = [(n - 1) * step + (k - 1) * apart + 1 for n, step, k, apart in places]
    beyond = [max(span - extent, 0) for span, extent in zip(reach, extents, strict=True)]
    automatic = write.attribute("auto_pad", b"NOTSET").decode()
    pads = list(write.attribute("pads", [0] * 2 * rank))
    before = pads[:rank] if automatic == "NOTSET" else [n // 2 for n in beyond]
    if automatic == "SAME_LOWER":
        before = [n - less for n, less in zip(beyond, before, strict=True)]
    after = [max(span - extent - n, 0) for span, extent, n in zip(reach, extents, before, strict=True)]
    return Window(*map(tuple, (extents, counts, lengths, before, after, strides, dilations)))


class Shown:
    """What a window shows of an image, being written.

    Args:
        image: its name, channels second.
        padding: name of what lies around it, one number; 0 if empty.
    """

    def __init__(self, write: Definition, image: str, window: Window, padding: str) -> None:
        self._write = write
        self._window = window
        self._rank = len(window.extents)
        image = write.add("Transpose", image, perm=[0, *range(2, 2 + self._rank), 1])
        if any(window.before) or any(window.after):
            pads = write.integers(0, *window.before, 0, 0, *window.after, 0)
            image = write.add("Pad", image, pads, *([padding] if padding else []))
        self._image = image

    def patches(self) -> str:
        """In each place: ``(batch, *counts, elements · channels)``, an element's channels side by side."""
        windows = self.windows(whole=False)
        if not any(size > 1 for size in self._window.sizes):
            return windows
        return self._write.add("Reshape", windows, self._write.integers(0, *self._window.counts, -1))

    def windows(self, whole: bool = True) -> str:
        """In each place: ``(batch, *counts, *sizes, channels)``.

        Args:
            whole: whether sizes of 1 are axes too.
        """
        image, place = self._image, 1
        places: list[int] = []
        elements: list[int] = []
        for axis, size in enumerate(self._window.sizes):
            image = self._gathered(image, axis, place, range(size))
            places.append(place)
            elements += [place + 1] * (size > 1)
            place += 1 + (size > 1)
        if elements:
            image = self._write.add("Transpose", image, perm=[0, *places, *elements, place])
        if not whole or len(elements) == len(self._window.sizes):
            return image
        sizes = self._write.integers(0, *self._window.counts, *self._window.sizes, -1)
        return self._write.add("Reshape", image, sizes)

    def elements(self) -> Iterator[str]:
        """Each element of the window in all places: ``(batch, *counts, channels)``, in the order of patches."""
        for element in product(*map(range, self._window.sizes)):
            image = self._image
            for axis, each in enumerate(element):
                image = self._gathered(image, axis, 1 + axis, range(each, each + 1))
            yield image

    def _gathered(self, image: str, axis: int, place: int, elements: range) -> str:
        """Along one axis, by an affine table, which becomes a plain load: an axis of elements if there are several."""
        import numpy as np

        window = self._window
        first, apart = (
            np.arange(window.counts[axis]) * window.strides[axis],
            np.array(elements) * window.dilations[axis],
        )
        table = (first[:, None] + apart).squeeze(1) if len(elements) == 1 else first[:, None] + apart
        whole = window.extents[axis] + window.before[axis] + window.after[axis]
        if len(elements) == 1 and window.counts[axis] == whole:
            return image
        return self._write.add("Gather", image, self._write.tensor(table), axis=place)
