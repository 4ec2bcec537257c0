"""Selections in the graph: what is read from the frontend's block, what follows a list, and where cascades end."""

from __future__ import annotations

import pytest

from models.routing import GRAPHS, routing
from redfuser.cascade.detect import detect
from redfuser.cascade.detection import Detection
from redfuser.cascade.model import Cascade
from redfuser.cascade.reading.extract import extract_graph
from redfuser.cascade.reading.selection import selection
from redfuser.expr import PAIR, Tensor
from redfuser.frontend import lower
from tests.cascade.reference import evaluate_cascade
from tests.frontend.running import loaded
from tests.selections import hard_rows, ordered


def detected(name: str) -> Detection:
    lowered = lower(loaded(routing(name)))
    graph, _ = extract_graph(lowered.module, lowered.provenance)
    graph.verify()
    return detect(graph)


def only(name: str) -> Cascade:
    (cascade,) = detected(name).cascades
    cascade.verify()
    return cascade


@pytest.mark.parametrize("name", GRAPHS)
def test_every_selection_of_the_models_is_found(name: str) -> None:
    found = detected(name)
    assert found.cascades and not found.rejected and all(cascade.selects for cascade in found.cascades)
    assert not found.boundaries


def test_lists_have_places_and_single_winners_have_none() -> None:
    assert [r.combiner for r in only("softmax_top_k").reductions] == ["max", "sum", "topk"]
    assert [r.result.name for r in only("switch_top_1").reductions] == ["max0", "sum1", "argmax2"]
    place = only("softmax_top_k").reductions[-1].rank
    assert place is not None and place.extent == 4


@pytest.mark.parametrize(
    "name, epilogues",
    [("renormalised_top_k", ["sum"]), ("softmax_of_top_k", ["max", "sum"]), ("sigmoid_with_bias", ["sum"])],
)
def test_what_folds_the_places_follows_the_list(name: str, epilogues: list[str]) -> None:
    cascade = only(name)
    assert [item.combiner for item in cascade.epilogues] == epilogues
    assert {item.over for item in cascade.epilogues} == {cascade.reductions[-1].rank}


def test_a_value_is_gathered_where_the_winner_is() -> None:
    cascade = only("argmax_gather")
    (output,) = cascade.outputs
    x = {tensor.name: hard_rows(6, 40, seed) for seed, tensor in enumerate(cascade.inputs)}
    scores, values = x.values()
    found = evaluate_cascade(cascade, x, None)[output.tensor.name]
    assert (found[:, 0] == values[range(6), ordered(scores, 1)[:, 0]]).sum() >= 5  # a NaN isn't equal to itself


def test_the_highest_position_wins_on_request() -> None:
    (first,), (last,) = only("argmax_of_softmax").outputs, only("last_argmax_of_softmax").outputs
    assert "-1" in str(first.value) and "-1" not in str(last.value)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_what_no_pair_holds_isnt_read(dtype: str) -> None:
    data, values = Tensor("x", (4, 9), dtype), Tensor("v", (4, 2), dtype)
    assert selection([data, values, Tensor("i", (4, 2), "int64")], largest=True, last=False) is None


def test_nothing_selected_isnt_read() -> None:
    data, values = Tensor("x", (4, 9), "float32"), Tensor("v", (4, 0), "float32")
    assert selection([data, values, Tensor("i", (4, 0), "int64")], largest=True, last=False) is None


def test_the_pairs_are_what_is_folded() -> None:
    parameters = [Tensor("x", (4, 9), "float32"), Tensor("v", (4, 2), "float32"), Tensor("i", (4, 2), "int64")]
    found = selection(parameters, largest=False, last=False)
    assert found is not None
    pairs, values, positions = found
    assert (pairs.tensor.dtype, pairs.combiner, pairs.rank) == (PAIR, "bottomk", pairs.axes[-1])
    assert not values.is_reduction and not positions.is_reduction
