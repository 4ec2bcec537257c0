"""What a recurrence says of itself, and that it survives being written down."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm")

from redfuser.frontend.kernels import top_k
from redfuser.recurrent.plain import plain
from redfuser.recurrent.recurrence import Activation, Recurrence, recurrence_of

TANH = Activation("tanh")
GRU = Recurrence("GRU", 20, "float32", (Activation("hardsigmoid", 0.2, 0.5), TANH), clip=3.0, ragged=True)


def test_units_are_whole_vectors() -> None:
    assert (GRU.units, GRU.shapes(7, 3)["weights"]) == (32, (2, 20, 3, 16))


def test_a_gru_multiplies_twice_where_it_resets_before() -> None:
    assert GRU.phases == (range(2), range(2, 3))
    assert Recurrence("GRU", 20, "float32", (TANH, TANH), reset_after=True).phases == (range(3),)


def test_a_function_is_known_by_its_mark() -> None:
    assert recurrence_of(plain(GRU, 7, 3)) == GRU
    assert recurrence_of(top_k(2, 3, 1, "float32", True)) is None
