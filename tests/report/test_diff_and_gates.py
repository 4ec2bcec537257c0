from dataclasses import replace

import pytest

from redfuser.errors import FusionGateError
from redfuser.options import CompileOptions
from redfuser.parsing import parse_gates
from redfuser.report import terminal
from redfuser.report.diff import compare_reports, describe_diff
from redfuser.report.gates import check_gates
from redfuser.report.value import FusionReport, Time
from redfuser.targets import load_target


def test_equal_reports_have_no_differences(report: FusionReport) -> None:
    diff = compare_reports(report, report)
    assert diff.changes == () and str(diff) == "no differences"
    assert "no differences" in terminal.render(describe_diff(diff))


def test_a_lost_fusion_is_worse_and_a_faster_kernel_better(report: FusionReport) -> None:
    fused, missed = report.cascades
    slower = replace(fused, verdict="unfused", reason=missed.reason, strategy="unfused", time=Time(50, "modelled"))
    effects = {c.field: c.effect for c in compare_reports(report, replace(report, cascades=(slower, missed))).changes}
    assert effects["verdict"] == "worse" and effects["time in us"] == "worse" and "reason" in effects
    back = compare_reports(replace(report, cascades=(slower, missed)), report)
    assert {c.field: c.effect for c in back.changes}["verdict"] == "better"


def test_measured_and_modelled_times_are_not_weighed(report: FusionReport) -> None:
    fused, missed = report.cascades
    measured = replace(report, cascades=(replace(fused, time=Time(50, "measured")), missed))
    (change,) = compare_reports(report, measured).changes
    assert change.field == "time in us" and change.effect == ""


def test_cascades_are_matched_by_their_nodes_when_ids_shift(report: FusionReport) -> None:
    fused, missed = report.cascades
    first = replace(missed, id="cascade_0", onnx_nodes=("new",))
    diff = compare_reports(report, replace(report, cascades=(first, replace(fused, id="cascade_1"))))
    assert [(c.cascade, c.old, c.new) for c in diff.changes] == [
        ("cascade_0", "", "other unfused"),
        ("cascade_1", "other unfused", ""),
    ]


def options(*gates: str, missed: bool = False) -> CompileOptions:
    return CompileOptions(load_target("cpu-avx2"), require_fused=parse_gates(gates), fail_on_missed=missed)


@pytest.mark.parametrize("gates", [(), ("softmax",), ("softmax>=1", "any==1"), ("attention>=0",)])
def test_gates_that_hold(report: FusionReport, gates: tuple[str, ...]) -> None:
    check_gates(report, options(*gates))


@pytest.mark.parametrize("gates", [("softmax>=2",), ("attention",), ("any==2",), ("softmax", "other>=1")])
def test_gates_that_fail_name_the_gate_and_the_reason(report: FusionReport, gates: tuple[str, ...]) -> None:
    with pytest.raises(FusionGateError) as caught:
        check_gates(report, options(*gates))
    assert caught.value.exit_code == 5
    assert str(parse_gates(gates)[-1]) in caught.value.message
    assert "cascade_1 (other): not-finite-rank" in caught.value.message


def test_fail_on_missed(report: FusionReport) -> None:
    with pytest.raises(FusionGateError, match="1 of 2 cascades not fused"):
        check_gates(report, options(missed=True))
    check_gates(replace(report, cascades=report.cascades[:1]), options(missed=True))
