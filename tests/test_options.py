"""Everything that can change an artifact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redfuser.errors import UsageError
from redfuser.options import CompileOptions
from redfuser.parsing import parse_gates
from redfuser.signature import DimRange
from redfuser.targets import load_target


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
        {"dims": {"n": DimRange(-1, 4)}},
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
