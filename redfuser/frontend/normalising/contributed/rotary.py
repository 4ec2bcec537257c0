"""RotaryEmbedding of the domain com.microsoft, by its definition, and for the attentions that do it themselves."""

from __future__ import annotations

from redfuser.frontend.normalising.contributed.heads import counted, extent
from redfuser.frontend.normalising.definition import END, Definition


def define_rotary_embedding(write: Definition) -> None:
    """The first elements of each head turned by an angle of its position; the rest of a head is kept.

    Inputs: input (B, S, heads·D) or (B, heads, S, D), position_ids (B, S), or (1) for the position of the first, and
    the cosines and sines of each position, (M, R/2).

    Raises:
        UnsupportedOperatorError: a ragged batch, a scale, or caches of unknown width.
    """
    if write.attribute("scale", 1.0) != 1:
        write.refuse("a scale", "scale the caches instead")
    half, rank = cache_width(write, 2), len(write.shape(0))
    named = write.attribute("rotary_embedding_dim", 0)
    if named not in (0, 2 * half):
        write.refuse(f"rotary_embedding_dim {named} and caches of {half} columns")
    heads, width = write.attribute("num_heads", 0), write.shape(0)[-1]
    if width is None or rank not in (3, 4):
        write.refuse(f"an input of rank {rank}, or of unknown width", "fix its last dimension with --dim")
    if rank == 4:
        size, x, axis, sequence = width, write.input(0), 1, 2
    else:
        size, axis, sequence = width // heads if heads else 2 * half, 2, 1
        x = write.add("Reshape", write.input(0), write.integers(0, 0, width // size, size))
    places = write.input(1)
    if len(write.shape(1)) == 1:
        if write.shape(1) != [1]:
            write.refuse("several positions in one row", "give them as (batch, sequence)")
        places = write.add("Add", places, counted(write, extent(write, write.input(0), sequence)))
        places = write.add("Unsqueeze", places, write.integers(0))
    angles = [_at(write, write.input(place), places, axis) for place in (2, 3)]
    turned = rotated(write, x, angles, half, size, bool(write.attribute("interleaved", 0)))
    if rank == 4:
        write.add("Identity", turned, out=write.output(0))
    else:
        write.add("Reshape", turned, write.integers(0, 0, width), out=write.output(0))


def cache_width(write: Definition, place: int) -> int:
    """How many angles a position has, from the cosines at this place among the inputs."""
    half = write.shape(place)[-1]
    if half is None:
        write.refuse("caches of unknown width", "fix their last dimension with --dim")
    return half


def _at(write: Definition, cache: str, places: str, axis: int) -> str:
    """The rows of a cache for positions (B, S), with one more axis for the heads."""
    return write.add("Unsqueeze", write.add("Gather", cache, places), write.integers(axis))


def head_angles(write: Definition, cosine: int, places: str) -> list[str]:
    """Cosines and sines (B, 1, S, R/2) at positions (B, S), from the caches at ``cosine`` and the place after it."""
    return [_at(write, write.input(place), places, 1) for place in (cosine, cosine + 1)]


def rotated(write: Definition, x: str, angles: list[str], half: int, size: int, interleaved: bool) -> str:
    """Pairs (a, b) of the last axis as (a·cos - b·sin, b·cos + a·sin).

    Args:
        angles: cosines and sines, with one column for each pair.
        half: pairs; the second of a pair is this far behind the first, or its neighbour if ``interleaved``.
        size: of the last axis.
    """
    sizes = [2 * half, size - 2 * half] if interleaved else [half, half, size - 2 * half]
    parts = _parts(write, x, [each for each in sizes if each])
    if interleaved:
        a, b = (_every_other(write, parts[0], start) for start in (0, 1))
    else:
        a, b = parts[:2]
    cosine, sine = angles
    first = write.add("Sub", write.add("Mul", a, cosine), write.add("Mul", b, sine))
    second = write.add("Add", write.add("Mul", b, cosine), write.add("Mul", a, sine))
    rest = parts[len(sizes) - 1 :] if size > 2 * half else []
    if not interleaved:
        return write.add("Concat", first, second, *rest, axis=-1)
    pairs = [write.add("Unsqueeze", each, write.integers(-1)) for each in (first, second)]
    together = write.add("Reshape", write.add("Concat", *pairs, axis=-1), write.integers(0, 0, 0, 2 * half))
    return write.add("Concat", together, *rest, axis=-1) if rest else together


def _parts(write: Definition, x: str, sizes: list[int]) -> list[str]:
    if len(sizes) == 1:
        return [x]
    places = [f"{write.name_for('Split')}_{place}" for place in range(len(sizes))]
    return list(write.add_many("Split", [x, write.integers(*sizes)], places, axis=-1))


def _every_other(write: Definition, x: str, start: int) -> str:
    bounds = [write.integers(number) for number in (start, END, -1, 2)]
    return write.add("Slice", x, *bounds)
