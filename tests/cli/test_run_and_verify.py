import json
from pathlib import Path

import numpy as np
import pytest

import redfuser as library
from redfuser.accuracy import compare
from redfuser.verification import OutputAccuracy


def test_run_on_random_inputs(redfuser, artifact: Path) -> None:
    code, out, err = redfuser("run", artifact)
    assert code == 0 and err == ""
    assert out.startswith("double: float32[2, 3]  min ") and "\nsame: int64[]  min " in out
    assert out == redfuser("run", artifact).out
    assert out != redfuser("run", artifact, "--seed", 1).out


def test_run_on_files(redfuser, artifact: Path, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x - 1, n=np.asarray(5))
    given = ("--inputs", tmp_path / "all.npz", "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out.npz")
    code, out, _ = redfuser("run", artifact, *given, "--format", "json")
    assert code == 0
    assert [item["name"] for item in json.loads(out)["outputs"]] == ["double", "same"]
    stored = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(stored["double"], 2 * x)
    assert stored["same"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "x"), "isn't NAME=FILE.npy"),
        (("--input", "x=absent.npy"), "No such file"),
        (("--input", "x=junk.npy"), "cannot read"),
        (("--input", "x=pickle.npy"), "pickle"),
        (("--input", "x=all.npz"), "several arrays"),
        (("--inputs", "x.npy"), "single array"),
        (("--input", "z=x.npy"), "no input is called 'z'"),
        (("--input", "n=x.npy"), "doesn't fit"),
        (("--inputs", "broken.npz"), "cannot read"),
        (("-o", "absent/out.npz"), "doesn't exist"),
        (("-o", "."), "isn't the name"),
    ],
)
def test_run_refuses_what_does_not_fit(
    redfuser, artifact: Path, tmp_path: Path, monkeypatch, arguments, message
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((2, 3), np.float32))
    np.savez("all.npz", x=np.zeros((2, 3), np.float32))
    np.save("pickle.npy", np.array([print], object), allow_pickle=True)
    Path("junk.npy").write_bytes(b"junk")
    content = bytearray(Path("all.npz").read_bytes())
    content[60:70] = b"\0" * 10
    Path("broken.npz").write_bytes(content)
    code, out, err = redfuser("run", artifact, *arguments)
    assert (code, out) == (2, "") and message in err, err


def test_verify_compares_with_the_oracles(redfuser, artifact: Path, doubling_model: Path) -> None:
    code, out, err = redfuser("verify", artifact, "--model", doubling_model)
    assert code == 0 and out.endswith("PASSED\n"), out + err
    assert "double: rmse 0.00e+00" in out and "run ONNX Runtime" in err
    data = json.loads(redfuser("verify", artifact, "--model", doubling_model, "-q", "--format", "json").out)
    assert data["passed"] and [item["name"] for item in data["outputs"]] == ["double", "same"]


def test_verify_fails_on_wrong_numbers(redfuser, artifact: Path, doubling_model: Path, monkeypatch) -> None:
    from redfuser.artifact.load import LoadedModel

    run = LoadedModel.__call__
    monkeypatch.setattr(
        LoadedModel, "__call__", lambda self, feeds: {name: value + 1 for name, value in run(self, feeds).items()}
    )
    code, out, _ = redfuser("verify", artifact, "--model", doubling_model, "-q")
    assert code == 6 and out.endswith("FAILED\n") and out.count("FAILED") == 3
    code, out, _ = redfuser("verify", artifact, "--model", doubling_model, "-q", "--format", "json")
    assert code == 6 and json.loads(out)["passed"] is False


def test_verify_refuses_another_model(redfuser, artifact: Path, doubling_model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(doubling_model.read_bytes().replace(b"doubling", b"doublinG"))
    code, _, err = redfuser("verify", artifact, "--model", other, "-q")
    assert code == 6 and "compiled from another model" in err
    assert redfuser("verify", artifact, "--model", tmp_path / "absent.onnx", "-q").code == 3


def test_an_infinite_error_is_null_in_json() -> None:
    wrong_shape = OutputAccuracy("y", compare(np.zeros(2), np.zeros(3), None, "float32"))
    assert wrong_shape.as_data()["rmse"] is None and wrong_shape.as_data()["passed"] is False


def test_the_loaded_module_says_what_it_takes(artifact: Path) -> None:
    assert [str(spec) for spec in library.load(artifact).inputs] == ["x: float32[2, 3]", "n: int64[]"]
