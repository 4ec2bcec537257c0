from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from redfuser.records import RecordError, decode, digest, encode, parse, to_text


@dataclass(frozen=True)
class Inner:
    size: int
    ratio: float = 1.0


@dataclass(frozen=True)
class Outer:
    name: str
    mode: Literal["a", "b"]
    parts: tuple[Inner, ...] = ()
    extra: Mapping[str, bool | int | str] = field(default_factory=dict)
    note: str | None = None


VALUE = Outer("ü\x1b", "a", (Inner(1), Inner(2, 0.5)), {"z": 1, "a": "x", "m": True}, None)


def test_round_trip() -> None:
    text = to_text(encode(VALUE))
    assert text.isascii() and text.endswith("}\n")
    assert decode(Outer, parse(text)) == VALUE
    assert list(encode(VALUE)["extra"]) == ["a", "m", "z"]
    assert digest(VALUE) == digest(decode(Outer, parse(text)))


def test_an_integer_is_a_fine_float_but_not_the_other_way_round() -> None:
    assert decode(Inner, {"size": 1, "ratio": 2}) == Inner(1, 2.0)
    with pytest.raises(RecordError, match="size: expected an integer, found a number"):
        decode(Inner, {"size": 1.0})
    with pytest.raises(RecordError, match="size: expected an integer, found a boolean"):
        decode(Inner, {"size": True})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "top level: expected an object, found a list"),
        ({"name": "x"}, "missing key 'mode'"),
        ({"name": "x", "mode": "c"}, "mode: 'c' is not one of 'a', 'b'"),
        ({"name": "x", "mode": "a", "parts": [{"size": 1}, {}]}, r"parts\[1\]: missing key 'size'"),
        ({"name": "x", "mode": "a", "extra": {"k": []}}, "extra.k: expected"),
        ({"name": None, "mode": "a"}, "name: expected text, found null"),
        ({"name": "x", "mode": "a", "other": 1}, "unknown key 'other'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(data: object, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decode(Outer, data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode({"x": value})


def test_bytes_travel_as_base_64() -> None:
    assert encode(b"\x00\xff") == "AP8="
    assert decode(bytes, "AP8=") == b"\x00\xff"
    with pytest.raises(RecordError, match="cubin: not base 64"):
        decode(bytes, "#", "cubin")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "9" * 400, "-" + "9" * 30, str(2**64)])
def test_numbers_that_no_record_holds_are_refused(text: str) -> None:
    """Python reads them all; to show or to write one would end in a traceback."""
    with pytest.raises(RecordError, match="not JSON"):
        parse(f'{{"size": {text}}}')
    assert parse(f"[{2**64 - 1}, {-(2**63)}, 1e308]") == [2**64 - 1, -(2**63), 1e308]
