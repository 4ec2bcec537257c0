"""Whether looking at what a mask hides is decided on the call, and how."""

from __future__ import annotations

import pytest

from redfuser.algebra import derive
from redfuser.expr.binding import at_sizes
from redfuser.expr.evaluate import evaluate
from redfuser.extents import Dim, Extent, size_of
from redfuser.tile.strategies.skipping.hidden import find_hidden
from redfuser.tile.strategies.skipping.worth import worth_looking
from tests.codegen.gpu.programs import Attention

NEW, PAST = size_of(Dim("new", 1, 4096)), size_of(Dim("past", 0, 65536))


def looks(attention: Attention, **sizes: int) -> int | None:
    """What is decided for sizes; None where nothing is."""
    cascade = attention.cascade()
    worth = worth_looking(cascade, find_hidden(cascade, derive(cascade)))
    return None if worth is None else int(evaluate(at_sizes(worth.value, sizes), {}, {}))


@pytest.mark.parametrize(
    ("new", "past", "causal", "window"),
    [
        (1, 0, 0, 0),
        (1, 8000, 0, 0),
        (128, 0, 0, 0),
        (200, 0, 1, 1),
        (512, 500, 1, 1),
        (512, 8000, 0, 1),
        (4096, 60000, 1, 1),
    ],
)
def test_many_rows_make_up_for_a_long_axis(new: int, past: int, causal: int, window: int) -> None:
    for mask, expected in (("causal", causal), ("finite", causal), ("window", window)):
        decoder = Attention(q_len=NEW, kv_len=PAST + NEW, mask=mask, past=PAST)
        assert looks(decoder, new=new, past=past) == expected


@pytest.mark.parametrize(("rows", "keys"), [(NEW, NEW), (128, 512), (16, PAST + 16), (NEW, 512)])
def test_elsewhere_it_is_decided_beforehand_or_not_worth_while(rows: Extent, keys: Extent) -> None:
    """Rows and axis grow together, are known, or rows are few whatever the axis."""
    attention = Attention(q_len=rows, kv_len=keys, mask="causal")
    assert looks(attention, new=1) is None


def test_rows_of_finite_masks_see_something_whatever_the_sizes() -> None:
    for past, upper in ((PAST, 1), (-PAST, 0)):
        cascade = Attention(q_len=NEW, kv_len=PAST + NEW, mask="finite", past=past).cascade()
        assert len(find_hidden(cascade, derive(cascade)).limits) == upper
