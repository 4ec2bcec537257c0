"""Frozen dataclasses as JSON and back, strictly checked: reports, manifests, options, targets.

A dataclass is its own schema. Decoding refuses unknown and missing keys, wrong types and wrong literals, and says
where. Text is deterministic: fields in declaration order, mappings sorted.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    NoneType: "null",
}


#: A sign, and as many digits as 64 bits hold.
_DIGITS = 21


class RecordError(ValueError):
    """Data doesn't have the shape of the dataclass it should become; the message starts with the place."""


def encode(value: object) -> Any:
    """JSON-ready data of a value made of dataclasses, tuples, mappings, scalars and bytes (as base 64).

    Raises:
        TypeError: the value holds something JSON cannot carry, a NaN or an infinity included.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(value[key]) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"not a record value: {value!r}")


def to_text(data: object) -> str:
    """JSON-ready data as indented text ending in a newline, ASCII only: safe to print, keys in the order given."""
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def digest(value: object) -> str:
    """SHA-256 of the compact JSON of a value, as hexadecimal text."""
    text = json.dumps(encode(value), separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def parse(text: str) -> Any:
    """JSON text as data.

    Raises:
        RecordError: the text isn't JSON, nests too deeply, or has a number that no record holds: neither NaN nor an
            infinity, which Python writes and JSON doesn't know, nor what doesn't fit a float64 or 64 bits.
    """
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}") from error


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _no_number(text)
    return number


def _integer(text: str) -> int:
    if len(text) > _DIGITS or abs(int(text)) >= 1 << 64:
        raise ValueError(f"{text[:_DIGITS]}… is too large an integer")
    return int(text)


def decode(kind: type[T], data: object, where: str = "") -> T:
    """Build ``kind`` from JSON-ready data.

    Args:
        kind: a dataclass, ``str``, ``bytes``, ``int``, ``float``, ``bool``, ``X | None``, ``Literal``,
            ``tuple[X, ...]`` or ``Mapping[str, X]`` of these.
        where: the place of ``data``, for messages.

    Raises:
        RecordError: names the first place that doesn't fit.
    """
    result: T = _decode(kind, data, where)
    return result


def _decode(kind: Any, data: object, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    if origin in (UnionType, Union):
        return _decode_union(arguments, data, where)
    if origin is Literal:
        if data not in arguments:
            raise RecordError(f"{where}: {data!r} is not one of {', '.join(map(repr, arguments))}")
        return data
    if origin is tuple:
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(_expect(list, data, where)))
    if origin is not None and issubclass(origin, Mapping):
        items = _expect(dict, data, where)
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in items.items()}
    if kind is float and type(data) is int:
        return float(data)
    if kind is bytes:
        return _decode_bytes(_expect(str, data, where), where)
    return _expect(kind, data, where)


def _decode_bytes(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RecordError(f"{where or 'top level'}: not base 64: {error}") from error


def _decode_dataclass(kind: Any, data: object, where: str) -> Any:
    items = _expect(dict, data, where)
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    unknown = items.keys() - {field.name for field in fields}
    required = {f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}
    missing = required - items.keys()
    for problem, keys in (("unknown", unknown), ("missing", missing)):
        if keys:
            raise RecordError(f"{where or 'top level'}: {problem} key {sorted(keys)[0]!r}")
    prefix = f"{where}." if where else ""
    values = {name: _decode(hints[name], item, f"{prefix}{name}") for name, item in items.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise RecordError(f"{where or 'top level'}: {error}") from error


def _decode_union(arguments: tuple[Any, ...], data: object, where: str) -> Any:
    if data is None and NoneType in arguments:
        return None
    options = [argument for argument in arguments if argument is not NoneType]
    for option in options[:-1]:
        try:
            return _decode(option, data, where)
        except RecordError:
            continue
    return _decode(options[-1], data, where)


def _expect(kind: Any, data: object, where: str) -> Any:
    # type() rather than isinstance(): True is not an int here.
    if type(data) is not kind:
        raise RecordError(f"{where or 'top level'}: expected {JSON_NAMES[kind]}, found {JSON_NAMES[type(data)]}")
    return data
