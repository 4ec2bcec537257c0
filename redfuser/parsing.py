"""Options as they are written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from redfuser.cascade.kinds import KINDS
from redfuser.errors import UsageError
from redfuser.options import Gate, is_extent
from redfuser.signature import DimRange

V = TypeVar("V")


def parse_dims(items: Iterable[str], least: int = 1) -> dict[str, int | DimRange]:
    """``["batch=1", "seq=1:512"]`` as a mapping: a value fixes a dimension, a range leaves it symbolic.

    Args:
        least: that a value may be, 0 or 1; a range may begin at 0, as that of a past does.

    Raises:
        UsageError: an item isn't ``NAME=EXTENT`` or ``NAME=LOW:HIGH`` of such integers, or a name comes twice.
    """
    dims: dict[str, int | DimRange] = {}
    for item in items:
        name, found, value = item.rpartition("=")
        low, colon, high = value.partition(":")
        may_begin = is_extent(low) or (low == "0" and (colon != "" or least == 0))
        if not found or not name or not may_begin or bool(colon) != is_extent(high):
            raise UsageError(
                f"--dim {item!r} isn't NAME=EXTENT or NAME=LOW:HIGH with positive extents",
                "for example --dim batch=1 --dim seq=1:512",
            )
        if colon and int(low) > int(high):
            raise UsageError(f"--dim {item!r}: the range is empty", f"for example --dim {name}={high}:{low}")
        fixed = not colon or low == high
        _add_once("--dim", dims, name, int(low) if fixed else DimRange(int(low), int(high)))
    return dims


def parse_shapes(items: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """``["input_ids=1x128"]`` as a mapping; ``scalar`` stands for the empty shape.

    Raises:
        UsageError: an item isn't ``NAME=EXTENTxEXTENT…``, or a name comes twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for item in items:
        name, found, value = item.rpartition("=")
        extents = [] if value == "scalar" else value.split("x")
        if not found or not name or not all(map(is_extent, extents)):
            raise UsageError(f"--shape {item!r} isn't NAME=EXTENTS", "for example --shape input_ids=1x128")
        _add_once("--shape", shapes, name, tuple(map(int, extents)))
    return shapes


def parse_values(items: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """``["axes=0,-1", "causal=true"]`` as a mapping: elements of inputs, in order.

    Raises:
        UsageError: an item isn't ``NAME=NUMBER,NUMBER…``, or a name comes twice.
    """
    values: dict[str, tuple[float, ...]] = {}
    for item in items:
        name, found, text = item.rpartition("=")
        try:
            numbers = tuple(_number(word) for word in text.split(",")) if text else ()
        except ValueError:
            found = ""
        if not found or not name:
            raise UsageError(f"--value {item!r} isn't NAME=NUMBERS", "for example --value axes=0,-1")
        _add_once("--value", values, name, numbers)
    return values


def _number(word: str) -> float:
    truth = {"true": 1, "false": 0}.get(word.strip().lower())
    if truth is not None:
        return truth
    try:
        return int(word)
    except ValueError:
        return float(word)


def parse_gates(items: Iterable[str]) -> tuple[Gate, ...]:
    """``["attention>=12"]`` as gates; a bare kind means at least one, ``any`` counts all kinds.

    Raises:
        UsageError: an item isn't ``KIND>=COUNT`` or ``KIND==COUNT``, or the kind is unknown.
    """
    gates = []
    for item in items:
        match = re.fullmatch(r"\s*(\w+)\s*(?:(>=|==)\s*(\d{1,9}))?\s*", item, re.ASCII)
        if match is None:
            raise UsageError(f"--require-fused {item!r} isn't KIND>=COUNT", "for example 'attention>=12'")
        kind, comparison, count = match.groups()
        if kind not in (*KINDS, "any"):
            raise UsageError(f"--require-fused {item!r}: no such kind", f"kinds are {', '.join(KINDS)}, any")
        gates.append(Gate(kind, "==" if comparison == "==" else ">=", int(count or 1)))
    return tuple(gates)


def _add_once(option: str, values: dict[str, V], name: str, value: V) -> None:
    if name in values:
        raise UsageError(f"{option} gives {name!r} twice", "keep one of them")
    values[name] = value


def parse_budget(text: str) -> float:
    """``60s``, ``5m``, ``1h`` or ``off`` as seconds.

    Raises:
        UsageError: it is none of these.
    """
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)", text, re.ASCII)
    if text != "off" and match is None:
        raise UsageError(f"a budget of {text!r} isn't a duration", "for example 60s, 5m or off")
    return 0.0 if match is None else float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]
