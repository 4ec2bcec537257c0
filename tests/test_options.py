from typing import Any

import numpy as np
import pytest

from redfuser.errors import UsageError
from redfuser.options import CompileOptions, Gate, parse_dims, parse_gates, parse_shapes
from redfuser.signature import DimRange
from redfuser.targets import load_target


def test_dims() -> None:
    assert parse_dims(["batch=1", "seq=len=128"]) == {"batch": 1, "seq=len": 128}
    assert parse_dims(["seq=1:512", "n=8:8"]) == {"seq": DimRange(1, 512), "n": 8}


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
        "b=0:4",
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


def test_the_digest_covers_every_option_and_no_order() -> None:
    target = load_target("cpu-avx2")
    base = CompileOptions(target)
    variants = [
        base,
        CompileOptions(load_target("cpu-avx512")),
        CompileOptions(target, dims={"a": 1}),
        CompileOptions(target, shapes={"a": (1,)}),
        CompileOptions(target, strict=True),
        CompileOptions(target, numerics="relaxed"),
        CompileOptions(target, require_fused=parse_gates(["any"])),
        CompileOptions(target, fail_on_missed=True),
        CompileOptions(target, seed=1),
        CompileOptions(target, threads=3),
    ]
    assert len({options.digest() for options in variants}) == len(variants)
    ab, ba = CompileOptions(target, dims={"a": 1, "b": 2}), CompileOptions(target, dims={"b": 2, "a": 1})
    assert ab.digest() == ba.digest()


def test_numbers_from_numpy_are_numbers() -> None:
    options = CompileOptions(
        load_target("cpu"),
        dims={"n": np.int64(4), "m": DimRange(1, 8)},
        shapes={"x": np.array([2, 3])},
        values={"k": np.array([2]), "s": np.array([0.5], np.float32)},
    )
    plain = CompileOptions(load_target("cpu"), {"n": 4, "m": DimRange(1, 8)}, {"x": (2, 3)}, {"k": (2,), "s": (0.5,)})
    assert options.digest() == plain.digest()


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": {"n": 0}},
        {"dims": {"n": "x"}},
        {"dims": {"n": (1, 64)}},
        {"dims": {"n": 1.5}},
        {"dims": {"n": DimRange(0, 4)}},
        {"dims": {"n": DimRange(4, 2)}},
        {"shapes": {"x": (0, 3)}},
        {"values": {"x": [float("nan")]}},
        {"values": {"x": [10**400]}},
        {"values": {"x": ["1"]}},
        {"numerics": "sloppy"},
        {"fp32": "fp8"},
        {"seed": -1},
        {"threads": 0},
        {"threads": 2.0},
    ],
)
def test_what_no_artifact_can_be_made_with_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CompileOptions(load_target("cpu"), **wrong)
