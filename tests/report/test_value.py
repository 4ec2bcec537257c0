import json
from dataclasses import replace

import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Reduction
from redfuser.expr import Tensor, axis, load, op
from redfuser.records import RecordError, decode, encode
from redfuser.report.collect import describe_product, describe_reduction, describe_target
from redfuser.report.derivation_entries import DerivationEntry
from redfuser.report.derivations import describe_derivation
from redfuser.report.value import CascadeEntry, FusionReport
from redfuser.targets import load_target
from redfuser.tile.ir import Schedule
from tests.algebra.build import attention


def test_json_round_trip_is_exact_and_deterministic(report: FusionReport) -> None:
    text = report.to_json()
    assert FusionReport.from_json(text) == report
    assert FusionReport.from_json(text).to_json() == text


def test_json_has_the_documented_shape(report: FusionReport) -> None:
    data = json.loads(report.to_json())
    assert list(data) == ["schema", "model", "target", "summary", "cascades"]
    assert data["schema"] == "redfuser.report/1"
    assert data["summary"] == {"cascades": 2, "fused": 1, "kinds": {"other": 1, "softmax": 1}}
    fused, missed = data["cascades"]
    keys = "id kind verdict reason onnx_nodes reductions derivation exactness strategy schedule traffic time error"
    assert set(fused) == {*keys.split(), "boundaries", "choice", "resources", "products"}
    assert fused["reason"] is None and set(missed["reason"]) == {"code", "text", "witness"}
    assert {"name", "op", "axes", "map"} <= set(fused["reductions"][0])
    assert set(fused["time"]) == {"value_us", "how"}


def test_products_are_listed_where_there_are_any(report: FusionReport) -> None:
    schedule = Schedule("multi-segment", (("m", 64), ("n", 128)), 4, "", (("threads", 128), ("stages", 3)))
    product = describe_product("product_0", schedule, {"registers_0": 120, "registers_1": 32})
    text = replace(report, products=(product,)).to_json()
    listed = json.loads(text)["products"]
    assert [entry["id"] for entry in listed] == ["product_0"]
    assert listed[0]["strategy"] == "multi-segment" and listed[0]["schedule"]["tile_n"] == 128
    assert FusionReport.from_json(text).products == (product,)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema",), "redfuser.report/9", "schema"),
        (("cascades", 0, "verdict"), "maybe", r"cascades\[0\].verdict"),
        (("cascades", 0, "kind"), "dance", "unknown kind"),
        (("cascades", 1, "reason"), None, "a reason goes with"),
        (("cascades", 0, "traffic", "flops"), "many", r"cascades\[0\].traffic.flops: expected an integer, found text"),
        (("cascades", 0, "time", "how"), "guessed", "measured"),
        (("cascades", 0, "surprise"), 1, "unknown key 'surprise'"),
        (("summary", "fused"), 2, "summary"),
    ],
)
def test_a_damaged_report_is_refused_with_the_place(report, path, value, message) -> None:
    data = json.loads(report.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(RecordError, match=message):
        FusionReport.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"combiner": "xor"}, "unknown combiner 'xor'"),
        ({"correction": ["1", "1", "1"]}, "one factor for each number"),
    ],
)
def test_a_state_that_cannot_be_shown_is_refused(change: dict[str, object], message: str) -> None:
    entry = describe_derivation(attention(), derive(attention()))
    data = encode(entry)
    data["recurrences"][0]["state"][0] |= change
    with pytest.raises(RecordError, match=rf"recurrences\[0\].*{message}"):
        decode(DerivationEntry, data)
    data = encode(entry)
    data["recurrences"][1]["matrix"] = [[]]
    with pytest.raises(RecordError, match="a row of the matrix is empty"):
        decode(DerivationEntry, data)


@pytest.mark.parametrize("text", ["", "[]", "null", "{" * 5000, '{"schema": "redfuser.report/1"}', "[" * 100_000])
def test_text_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        FusionReport.from_json(text)


def test_a_verdict_needs_its_reason(fused_entry: CascadeEntry, missed_entry: CascadeEntry) -> None:
    with pytest.raises(ValueError, match="a reason goes with"):
        replace(missed_entry, reason=None)
    with pytest.raises(ValueError, match="a reason goes with"):
        replace(fused_entry, reason=missed_entry.reason)


def test_entries_come_from_the_stages_values() -> None:
    row, k = axis("row", 4), axis("k", 8)
    x, m = Tensor("x", (4, 8), "float32"), Tensor("m", (4,), "float32")
    reduction = Reduction(m, "max", (row,), k, load(x, row, k))
    entry = describe_reduction(reduction)
    assert (entry.axes, entry.over, entry.map) == (("row<4",), "k<8", "x[row, k]")


def test_maps_have_the_brackets_they_need() -> None:
    row, k = axis("row", 4), axis("k", 8)
    x = load(Tensor("x", (4, 8), "float32"), row, k)
    both = op("mul", op("add", x, x), op("sub", x, x))
    entry = describe_reduction(Reduction(Tensor("m", (4,), "float32"), "sum", (row,), k, op("exp", both)))
    assert entry.map == "exp((x[row, k] + x[row, k])·(x[row, k] − x[row, k]))"


def test_targets_are_described_alike() -> None:
    assert describe_target(load_target("cpu-avx2")).arch == "x86-64-v3"
    assert describe_target(load_target("h800")).cores == 132
