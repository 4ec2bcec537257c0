"""Options as they are written on a command line."""

from __future__ import annotations

import pytest

from redfuser.errors import UsageError
from redfuser.options import Gate
from redfuser.parsing import parse_dims, parse_gates, parse_shapes
from redfuser.signature import DimRange


def test_dims() -> None:
    assert parse_dims(["batch=1", "seq=len=128"]) == {"batch": 1, "seq=len": 128}
    assert parse_dims(["seq=1:512", "n=8:8"]) == {"seq": DimRange(1, 512), "n": 8}
    assert parse_dims(["past=0:512"]) == {"past": DimRange(0, 512)} and parse_dims(["past=0"], least=0) == {"past": 0}


@pytest.mark.parametrize(
    "item",
    [
        "",
        "batch",
        "batch=",
        "=1",
        "batch=0",
        "batch=-1",
        "batch=1.5",
        "batch=１",
        "b=1e3",
        "b=:",
        "b=1:",
        "b=:2",
        "b=2:1",
        "b=0:0",
    ],
)
def test_bad_dims(item: str) -> None:
    with pytest.raises(UsageError, match="--dim"):
        parse_dims([item])


def test_shapes() -> None:
    assert parse_shapes(["input_ids=1x128", "a:0=3", "s=scalar"]) == {"input_ids": (1, 128), "a:0": (3,), "s": ()}


@pytest.mark.parametrize("item", ["", "x", "x=", "x=1x", "x=x", "x=1,2", "x=0x3", "=1x2", "x=1X2"])
def test_bad_shapes(item: str) -> None:
    with pytest.raises(UsageError, match="--shape"):
        parse_shapes([item])


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_dims(["a=1", "a=1"])
    with pytest.raises(UsageError, match="twice"):
        parse_shapes(["a=1", "a=2"])


def test_gates() -> None:
    assert parse_gates(["attention>=12", " softmax == 3 ", "any"]) == (
        Gate("attention", ">=", 12),
        Gate("softmax", "==", 3),
        Gate("any", ">=", 1),
    )
    assert str(parse_gates(["attention>=12"])[0]) == "attention>=12"


@pytest.mark.parametrize("item", ["", "attention>", "attention>=", "attention<=3", "dance>=1", "attention>=-1", "12"])
def test_bad_gates(item: str) -> None:
    with pytest.raises(UsageError, match="--require-fused"):
        parse_gates([item])
