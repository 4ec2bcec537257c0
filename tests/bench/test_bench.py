"""The benchmark: what is measured, what is told of it, on the command line too."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.attention import attention
from redfuser.bench import plot, timing
from redfuser.bench.plot import Bar, Chart, check_plot, write_plot
from redfuser.bench.result import SCHEMA, BenchResult, CaseResult, summarise
from redfuser.bench.workload import known_case, load_workload, workload_names
from redfuser.errors import MissingToolError, UsageError
from redfuser_cli.main import main
from tests.cli.conftest import Outcome


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No pauses, and a cache of its own."""
    monkeypatch.setattr(timing, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    yield


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "attention.onnx"
    path.write_bytes(attention(heads=2, q_len=16, kv_len=512, head_dim=16).SerializeToString())
    return path


def bench(capsys: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    """Run ``redfuser bench``."""
    code = main(["bench", *map(str, arguments)])
    return Outcome(code, *capsys.readouterr())


def test_a_model_against_every_side(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chart, output = tmp_path / "plot.svg", tmp_path / "result.json"
    run = bench(capsys, model, "--rounds", 1, "--threads", 1, "--plot", chart, "-o", output, "-q", "--format", "json")
    assert run.code == 0, run.err
    result = json.loads(run.out)
    assert result == json.loads(output.read_text()) and result["schema"] == SCHEMA
    (case,) = result["cases"]
    assert [side["side"] for side in case["sides"]][:2] == ["redfuser", "unfused"]
    assert {"onnxruntime"} <= {side["side"] for side in case["sides"]} | case["absent"].keys()
    assert case["sides"][0]["ratio"] == 1 and all(side["median_us"] > 0 for side in case["sides"])
    assert xml.parse(chart).getroot().tag.endswith("svg")


def test_an_artifact_is_timed_by_itself(artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = bench(capsys, artifact, "--rounds", 1, "--threads", 1, "-q", "--format", "json")
    assert run.code == 0, run.err
    (case,) = json.loads(run.out)["cases"]
    assert case["name"] == "doubling.onnx" and [side["side"] for side in case["sides"]] == ["redfuser"]


@pytest.mark.slow
def test_an_ablation_has_every_strategy(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = bench(capsys, model, "--rounds", 1, "--threads", 2, "--ablate", "-q", "--format", "json")
    assert run.code == 0, run.err
    (case,) = json.loads(run.out)["cases"]
    sides = [side["side"] for side in case["sides"]]
    assert sides == ["unfused", "resident", "incremental", "2 segments", "4 segments", "8 segments"]
    assert case["absent"] == {"16 segments": "no cascade has such a schedule"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["mhaa"], "did you mean mha"),
        (["mha", "--case", "bert"], "bert-base"),
        (["absent.toml"], "cannot read"),
        (["absent.onnx"], "absent.onnx"),
        (["mha", "--case", "vit-b", "--device", "cuda"], "can't run on cuda"),
        (["mha", "--case", "vit-b", "--target", "h800", "--device", "cpu"], "can't run on cpu"),
    ],
)
def test_nonsense_is_refused_with_a_way_out(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bench(capsys, *arguments)
    assert run.code in (2, 3) and word in run.err


def test_workloads_that_come_with_redfuser_build() -> None:
    from onnx import checker

    assert {"mha", "mla", "moe", "moments", "quant", "rows"} <= set(workload_names())
    for name in workload_names():
        for case in load_workload(name).cases:
            if case.whole and case.arguments.get("mask") != "causal":
                checker.check_model(case.model())


def test_a_case_is_known_by_its_graph() -> None:
    case = load_workload("moments").cases[1]
    assert known_case(hashlib.sha256(case.model().SerializeToString()).hexdigest()) == case
    assert known_case("0" * 64) is None


def test_calls_that_only_start_something_are_waited_for() -> None:
    started, waits = [0], []
    sides = {"a": lambda: started.__setitem__(0, started[0] + 1)}
    taken = timing.interleaved(sides, 2, wait=lambda: waits.append(started[0]), burst=5)
    first = timing.WARM_CALLS
    assert waits[:3] == [first, first + 5, first + 10] and len(taken["a"]) == 2 * timing.CALLS


def test_a_workload_gives_its_cases_what_they_dont_say(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        'description = "d"\nbuilder = "reductions.softmax"\narguments = { rows = 4, width = 8 }\n'
        '[[cases]]\nname = "a"\n[[cases]]\nname = "b"\narguments = { width = 16 }\n'
    )
    first, second = load_workload(str(path)).cases
    assert first.arguments == {"rows": 4, "width": 8} and second.arguments == {"rows": 4, "width": 16}
    assert second.builder == "reductions.softmax" and second.model().graph.node


@pytest.mark.parametrize(
    "text", ["", "cases = 1", "[[cases]]\nname = 'a'", "[[cases]]\nname='a'\nbuilder='x.y'\nz=1", "\xff"]
)
def test_a_workload_that_is_wrong_says_where(text: str, tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="cannot read the workload"):
        load_workload(str(path))


def test_an_unknown_builder_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text("description = ''\n[[cases]]\nname = 'a'\nbuilder = 'reductions.nothing'\n")
    with pytest.raises(UsageError, match="cannot build"):
        load_workload(str(path)).cases[0].model()


def case() -> CaseResult:
    """Two sides, the second twice as slow."""
    return summarise("c<1>", {"redfuser": [1e-3, 1e-3, 1.2e-3], "peer": [2e-3] * 3}, {"torch": "x"}, 10, 20, 500.0)


def test_ratios_refer_to_the_first_side_and_shares_to_the_roofline() -> None:
    ours, peer = case().sides
    assert (ours.ratio, peer.ratio) == (1, 2) and (ours.roofline, peer.roofline) == (0.5, 0.25)
    assert ours.median_us == 1000 and ours.least_us == 1000


def test_names_cannot_break_the_plot() -> None:
    result = BenchResult(SCHEMA, "<b>&\x1b", "m", 2, 0, 0, {}, (case(),))
    text = Chart.of(result).svg()
    xml.fromstring(text)
    assert "<b>" not in text and "\x1b" not in text
    rows = result.document().rows
    assert rows[0][:3] == ("c<1>", "redfuser", "1 ms") and rows[1][5] == "2.00"


def test_a_plot_is_drawn_in_the_format_its_name_ends_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    result = BenchResult(SCHEMA, "t", "m", 2, 0, 0, {}, (case(),))
    chart, path = Chart.of(result), tmp_path / "x.PNG"
    write_plot(result, path)
    with image.open(path) as picture:
        assert picture.format == "PNG" and picture.size == (2 * chart.width, 2 * chart.height)
        bars = [shape for shape in chart.shapes if isinstance(shape, Bar)]
        colors = {picture.getpixel((2 * bar.x + 4, 2 * bar.y + 4)) for bar in bars}
        assert colors == {(0xB3, 0x26, 0x1E), (0x5B, 0x7F, 0xA6)}
    with pytest.raises(UsageError, match="names no kind of picture"):
        write_plot(result, tmp_path / "x.jpg")
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match="Pillow"):
        check_plot(path)
    assert check_plot(tmp_path / "x.svg") == ".svg"
