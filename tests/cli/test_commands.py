import json
from pathlib import Path

import numpy as np
import pytest

from redfuser.report.value import FusionReport


def test_compile_writes_says_what_and_what_next(redfuser, driver, tmp_path: Path) -> None:
    output = tmp_path / "out"
    code, out, err = redfuser("compile", "dir/m.onnx", "-o", output, "--dim", "batch=1", "--shape", "x=4x512")
    assert code == 0
    assert "found 2 cascaded reductions (1 other, 1 softmax); fused 1" in out
    assert "not fused: cascade_1" in out and "5.0 times less" in out
    assert f"wrote {output}/" in out and f"next: redfuser report {output}" in out
    assert "detect cascades" in err and "2 candidates" not in err
    (options,) = driver.asked
    assert options.dims == {"batch": 1} and options.shapes == {"x": (4, 512)} and options.target.name == "cpu"
    assert (output / "module.so").read_bytes() == b"code"


def test_quiet_and_verbose(redfuser, driver, tmp_path: Path) -> None:
    assert redfuser("compile", "m.onnx", "-o", tmp_path / "a", "-q").err == ""
    assert "2 candidates" in redfuser("compile", "m.onnx", "-o", tmp_path / "b", "-v").err


def test_the_default_output_lies_beside_the_model(redfuser, driver, tmp_path: Path) -> None:
    assert redfuser("compile", tmp_path / "bert.v2.onnx", "-q").code == 0
    assert redfuser("compile", tmp_path / "model.bin", "-q").code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bert.v2.redfuser", "model.bin.redfuser"]


def test_an_existing_output_is_refused_before_any_work(redfuser, driver, tmp_path: Path) -> None:
    assert redfuser("compile", tmp_path / "m.onnx", "-q").code == 0
    code, _, err = redfuser("compile", tmp_path / "m.onnx", "-q")
    assert code == 2 and err.startswith("error[output]: ") and "--force" in err
    assert len(driver.asked) == 1
    assert redfuser("compile", tmp_path / "m.onnx", "-q", "--force").code == 0


def test_json_results(redfuser, driver, report: FusionReport, tmp_path: Path) -> None:
    code, out, _ = redfuser("compile", "m.onnx", "-o", tmp_path / "a", "--format", "json")
    data = json.loads(out)
    assert code == 0 and data["schema"] == "redfuser.compile/1" and data["report"] == report.as_data()
    assert json.loads(redfuser("analyze", "m.onnx", "--format", "json").out) == report.as_data()
    assert json.loads(redfuser("report", tmp_path / "a", "--format", "json").out) == report.as_data()


@pytest.mark.parametrize("gate", [("--require-fused", "softmax>=2"), ("--fail-on", "missed")])
def test_a_gate_that_fails_leaves_the_dump_but_no_artifact(redfuser, driver, tmp_path: Path, gate) -> None:
    code, out, err = redfuser("compile", "m.onnx", "-o", tmp_path / "a", "--dump", tmp_path / "dump", "-q", *gate)
    assert (code, out) == (5, "") and err.startswith("error[fusion-gate]: ")
    assert [p.name for p in tmp_path.iterdir()] == ["dump"]
    assert (tmp_path / "dump" / "00-lowered.txt").read_text() == "text\n"


def test_a_gate_that_holds(redfuser, driver, tmp_path: Path) -> None:
    assert redfuser("compile", "m.onnx", "-o", tmp_path / "a", "-q", "--require-fused", "softmax>=1").code == 0


@pytest.mark.parametrize(
    ("option", "code"),
    [(("--dim", "a=0"), 2), (("--shape", "a"), 2), (("--require-fused", "x>=1"), 2), (("--target", "h1000"), 4)],
)
def test_bad_options_are_refused_before_any_work(redfuser, driver, tmp_path: Path, option, code: int) -> None:
    assert redfuser("compile", "m.onnx", "-o", tmp_path / "a", *option).code == code
    assert not driver.asked and not list(tmp_path.iterdir())


def test_analyze_shows_details_with_v(redfuser, driver) -> None:
    assert "derivation" not in redfuser("analyze", "m.onnx").out
    assert "derivation" in redfuser("analyze", "m.onnx", "-v").out
    assert redfuser("analyze", "m.onnx", "--format", "markdown").out.startswith("# Fusion report: tiny.onnx")


def test_report_in_every_form_and_its_diff(redfuser, driver, tmp_path: Path) -> None:
    redfuser("compile", "m.onnx", "-o", tmp_path / "a", "-q")
    assert "cascade_0" in redfuser("report", tmp_path / "a").out
    assert redfuser("report", tmp_path / "a" / "report.json", "--format", "html").out.startswith("<!doctype html>")
    changed = (tmp_path / "a" / "report.json").read_text().replace("single-segment", "resident")
    (tmp_path / "old.json").write_text(changed)
    code, out, _ = redfuser("report", tmp_path / "a", "--diff", tmp_path / "old.json")
    assert code == 0 and "1 difference" in out and "resident" in out
    data = json.loads(redfuser("report", tmp_path / "a", "--diff", tmp_path / "old.json", "--format", "json").out)
    assert data["schema"] == "redfuser.report-diff/1" and len(data["changes"]) == 1


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe", b"[" * 100_000])
def test_a_report_that_cannot_be_read(redfuser, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_bytes(content)
    code, out, err = redfuser("report", tmp_path)
    expected, kind = (2, "usage") if content is None else (6, "verification")
    assert (code, out) == (expected, "") and err.startswith(f"error[{kind}]: cannot read the report")


def test_verify_hashes_again(redfuser, driver, tmp_path: Path) -> None:
    redfuser("compile", "m.onnx", "-o", tmp_path / "a", "-q")
    code, out, _ = redfuser("verify", tmp_path / "a", "-q")
    assert code == 0 and out.endswith("PASSED\n") and "numbers were not compared" in out
    assert json.loads(redfuser("verify", tmp_path / "a", "-q", "--format", "json").out)["passed"] is True
    (tmp_path / "a" / "module.so").write_bytes(b"other")
    code, _, err = redfuser("verify", tmp_path / "a", "-q")
    assert code == 6 and "module.so has changed" in err
    assert redfuser("verify", tmp_path / "absent", "-q").code == 2


def test_targets(redfuser) -> None:
    code, out, _ = redfuser("targets")
    assert code == 0 and "h800" in out and "cpu-avx2" in out
    data = json.loads(redfuser("targets", "--format", "json").out)
    assert data["schema"] == "redfuser.targets/1"
    assert {item["name"]: item["kind"] for item in data["targets"]}["h20"] == "gpu"


def test_doctor(redfuser, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = redfuser("doctor")
    assert code == 0 and "BROKEN" not in out and "linker" in out
    monkeypatch.setattr("redfuser.health.installed", lambda name: "0.27.0" if name == "apache-tvm" else None)
    code, out, _ = redfuser("doctor")
    assert code == 8
    assert "apache-tvm       0.27.0, but 0.25.0.post1 is needed -- pip install apache-tvm==0.25.0.post1" in out
    data = json.loads(redfuser("doctor", "--format", "json").out)
    assert data["ok"] is False and {check["state"] for check in data["checks"]} == {"ok", "optional", "broken"}


def test_outputs_are_stored_under_any_name(tmp_path: Path) -> None:
    from redfuser_cli.run import save_arrays, summarise

    arrays = {"file": np.ones(2), "allow_pickle": np.zeros((), bool), "a/b.npy": np.asarray([np.nan, np.inf, 1.0])}
    save_arrays(arrays, tmp_path / "o.npz")
    loaded = np.load(tmp_path / "o.npz")
    assert {name: loaded[name].tolist() for name in ("file", "allow_pickle")} == {"file": [1, 1], "allow_pickle": False}
    summary = summarise("a", arrays["a/b.npy"])
    assert (summary["min"], summary["max"], summary["nan"], summary["inf"]) == (1.0, 1.0, 1, 1)
    assert summarise("empty", np.zeros((0, 3)))["mean"] is None
