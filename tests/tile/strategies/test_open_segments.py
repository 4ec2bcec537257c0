"""Several segments of an axis whose size is open: as many whatever the size, some empty where it is short."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import axis
from redfuser.expr.binding import at_sizes
from redfuser.extents import Dim, size_of
from redfuser.tile import Schedule, build, interpret, verify
from redfuser.tile.concrete import program_at, with_derived
from redfuser.tile.strategies.multi_segment import BLOCKS
from redfuser.tile.strategies.segments import Segments
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from tests.cascade.reference import evaluate_cascade
from tests.selections import routing, selection
from tests.tile.build import ROW, Attention, Rows, random_inputs

LENGTH = size_of(Dim("length", 1, 4096))
ROWS = Rows(ROW, axis("l", LENGTH))

CASCADES = {
    "attention": Attention(kv_len=LENGTH).cascade(),
    "one-query": Attention(q_len=1, kv_len=LENGTH, mask="none", guard=True).cascade(),
    "causal": Attention(q_len=9, kv_len=LENGTH, mask="causal").cascade(),
    "selection": selection(3, LENGTH, 4, "float32"),
    "routing": routing(3, LENGTH, 2),
    **{
        name: getattr(ROWS, name)()
        for name in ("softmax", "logsumexp", "variance", "layer_norm", "absmax_scaled", "two_softmaxes")
    },
}

#: One; fewer than there are segments; a tile and its neighbours; one tile a segment and more.
LENGTHS = (1, 2, 3, 4, 5, 9, 19, 20, 21, 43)


@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "minus-infinity"])
@pytest.mark.parametrize("name", CASCADES)
def test_merged_segments_are_the_whole(name: str, hidden: bool) -> None:
    cascade = CASCADES[name]
    program = build(cascade, derive(cascade), Schedule("multi-segment", (("i", 2), (cascade.axis.name, 4)), 5))
    verify(program)
    places = max((r.rank.extent for r in cascade.reductions if r.rank is not None), default=1)
    for length in (n for n in LENGTHS if n >= places):
        sizes = {"length": length}
        known = at_sizes(cascade, sizes)
        inputs = random_inputs(known, length)
        if hidden:
            for given in (inputs[name] for name in ("x", "mask") if name in inputs):
                given[..., : length // 2] = -np.inf
        actual = interpret(program_at(program, sizes), inputs, "float64")
        for output, expected in evaluate_cascade(known, inputs).items():
            message = f"{output} at {length}\n{program}"
            np.testing.assert_allclose(actual[output], expected, rtol=1e-12, atol=1e-13, err_msg=message)


def test_as_many_segments_whatever_the_size() -> None:
    segments = Segments.cut(LENGTH, 5, 4)
    assert segments.axis.extent == 5 and str(segments.tiles) == "((length + 19) // 20)"
    assert [str(bound) for bound in segments.bounds(LENGTH)] == [
        "min(((segment * ((length + 19) // 20)) * 4), length)",
        "min((((segment + 1) * ((length + 19) // 20)) * 4), length)",
    ]


@pytest.mark.parametrize("name", ["attention", "layer_norm", "logsumexp"])
def test_any_number_of_segments_that_the_call_decides_on_gives_the_same(name: str) -> None:
    rows = axis("i", size_of(Dim("segments", 1, 64)))  # a name that is taken
    cascade = Attention(q_len=rows.extent, kv_len=LENGTH).cascade() if name == "attention" else None
    cascade = cascade or getattr(Rows(rows, axis("l", LENGTH)), name)()
    schedule = Schedule("multi-segment", (("i", 2), (cascade.axis.name, 4)), 5, "", ((BLOCKS, 12),))
    program = build(cascade, derive(cascade), schedule)
    verify(program)
    [derived] = program.derived
    for count, length in ((1, 9), (3, 30), (3, 2), (9, 30)):
        sizes = {"segments": count, "length": length}
        known = at_sizes(cascade, sizes)
        inputs = random_inputs(known, length)
        expected = evaluate_cascade(known, inputs)
        for segments in (None, 1, 2, 5):
            chosen = sizes if segments is None else {**sizes, derived.dim.name: segments}
            actual = interpret(program_at(program, chosen), inputs, "float64")
            for output in expected:
                np.testing.assert_allclose(actual[output], expected[output], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("spoil", [0.5, np.nan])
@pytest.mark.parametrize("mask", ["causal", "window"])
def test_what_positions_hide_is_skipped_at_every_size(mask: str, spoil: float) -> None:
    cascade = Attention(q_len=LENGTH, kv_len=LENGTH, mask=mask).cascade()
    schedule = Schedule("single-segment", (("i", 4), ("j", 4)), 1, "", ((SKIP_HIDDEN, 4),))
    program = build(cascade, derive(cascade), schedule)
    verify(program)
    for length in (1, 3, 8, 41):
        known = at_sizes(cascade, {"length": length})
        inputs = random_inputs(known, length)
        inputs["v"][..., -1, 2] = spoil
        actual = interpret(program_at(program, {"length": length}), inputs, "float64")
        for output, expected in evaluate_cascade(known, inputs).items():
            np.testing.assert_allclose(actual[output], expected, rtol=1e-12, atol=1e-13)


def test_few_rows_get_more_segments() -> None:
    cascade = Rows(axis("i", size_of(Dim("rows", 1, 64))), axis("l", LENGTH)).logsumexp()
    program = build(cascade, derive(cascade), Schedule("multi-segment", (("i", 2), ("l", 4)), 5, "", ((BLOCKS, 12),)))
    assert str(program.derived[0]) == "segments = max(min((12 // ((rows + 1) // 2)), 5), 1)"
    found = [with_derived({"rows": rows}, program.derived)["segments"] for rows in (1, 4, 5, 8, 13, 64)]
    assert found == [5, 5, 4, 3, 1, 1]


def rows_of_workspaces(cascade: Cascade) -> set[str]:
    program = build(cascade, derive(cascade), Schedule("multi-segment", ((cascade.axis.name, 4),), 5))
    verify(program)
    return {str(tensor.shape[1]) for tensor in program.workspaces}


def test_states_of_open_rows_take_memory_of_open_size() -> None:
    batch = size_of(Dim("batch", 1, 64))
    assert rows_of_workspaces(Rows(axis("i", batch), axis("l", LENGTH)).logsumexp()) == {"batch"}
