import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redfuser import errors
from redfuser.errors import RedFuserError

COMMAND = [sys.executable, "-m", "redfuser_cli.main"]


def test_help_is_fast_and_imports_nothing_heavy() -> None:
    script = """
import sys
from redfuser_cli.main import main
try:
    main(["--help"])
except SystemExit:
    heavy = {"tvm", "onnx", "numpy", "sympy", "rich", "torch", "onnxruntime"} & set(sys.modules)
    sys.exit(f"imported {heavy}" if heavy else 0)
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr
    assert "compile" in result.stdout and "exit codes" in result.stdout
    # Processor time: what else runs on the machine must not decide.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


def test_importing_the_library_is_light_and_its_names_resolve() -> None:
    script = """
import sys, redfuser
assert not {"tvm", "onnx", "numpy", "sympy"} & set(sys.modules)
assert all(getattr(redfuser, name) for name in redfuser.__all__) and set(dir(redfuser)) == set(redfuser.__all__)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    import redfuser

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        redfuser.nothing  # noqa: B018


def test_version_names_the_tools(redfuser, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        redfuser("--version")
    assert caught.value.code == 0
    assert "apache-tvm 0.25.0.post1" in capsys.readouterr().out


NONSENSE = (
    "",
    "dance",
    "compile",
    "compile m.onnx --seed x",
    "compile m.onnx --threads 0",
    "run a --seed -1",
    "targets --for json",
    "run a -o .",
    "tune m.onnx -o no/such/folder/m.lock",
    "bench moe -o no/such/folder/moe.json",
    "bench moe --plot no/such/folder/moe.svg",
    "analyze m.onnx --value x=nan",
    "analyze m.onnx --value x=1e999",
)


@pytest.mark.parametrize("line", NONSENSE)
def test_nonsense_is_one_line_and_a_hint(redfuser, line: str) -> None:
    code, out, err = redfuser(*line.split())
    assert code == 2 and out == ""
    assert err.startswith(("error[usage]: ", "error[output]: ")) and "\nhint: " in err and err.count("\n") == 2


@pytest.mark.parametrize("command", ["compile", "tune", "analyze", "verify a --model"])
@pytest.mark.parametrize("path", ["", ".", "/"])
def test_what_cannot_be_a_file_is_no_model(redfuser, path: str, command: str) -> None:
    code, out, err = redfuser(*command.split(), path, "-q")
    assert out == "" and (code, err[:10]) in ((3, "error[bad-"), (2, "error[usag"))


@pytest.mark.parametrize(
    "kind", [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, RedFuserError)]
)
def test_every_error_becomes_its_line_and_exit_code(redfuser, driver, kind: type[RedFuserError]) -> None:
    driver.fail = kind("node 'a\x1b[31m': bad", "mend it")
    code, out, err = redfuser("analyze", "m.onnx", "-q")
    assert (code, out) == (kind.exit_code, "")
    assert err == f"error[{kind.code}]: node 'a\\x1b[31m': bad\nhint: mend it\n"
    code, out, _ = redfuser("analyze", "m.onnx", "-q", "--format", "json")
    assert json.loads(out)["error"]["code"] == kind.code


def test_an_internal_error_is_short_and_v_shows_the_traceback(redfuser, driver) -> None:
    driver.fail = RuntimeError("first\nsecond")
    code, _, err = redfuser("analyze", "m.onnx", "-q")
    assert code == 1 and err.startswith("error[internal]: RuntimeError: first\nhint: ") and "second" not in err
    code, _, err = redfuser("analyze", "m.onnx", "-v")
    assert code == 1 and "Traceback" in err and "second" in err


def test_a_missing_package_is_the_machines_fault_and_a_missing_module_of_ours_is_not(redfuser, driver) -> None:
    driver.fail = ModuleNotFoundError("No module named 'onnx'", name="onnx")
    assert redfuser("analyze", "m.onnx", "-q").code == 8
    driver.fail = ModuleNotFoundError("No module named 'redfuser.gone'", name="redfuser.gone")
    assert redfuser("analyze", "m.onnx", "-q").code == 1


def test_an_interrupt_leaves_nothing(redfuser, driver, tmp_path: Path) -> None:
    driver.fail = KeyboardInterrupt()
    code, out, err = redfuser("compile", "m.onnx", "-o", tmp_path / "out", "-q")
    assert (code, out, err) == (130, "", "interrupted\n") and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "code", "unwinding"),
    [
        (signal.SIGINT, 130, "raise"),
        (signal.SIGTERM, 143, "raise"),
        (signal.SIGTERM, 143, "raise RuntimeError(ended)"),  # what calls back through TVM
    ],
)
def test_signals_clean_up(tmp_path: Path, number: int, code: int, unwinding: str) -> None:
    script = f"""
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
from types import ModuleType
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.conftest import *
from tests.cli.conftest import FakeDriver
from redfuser.artifact.contents import CompiledModule
from redfuser.report.value import (FusionReport, ModelInfo, TargetInfo)
from redfuser_cli.main import main

def slow(path):
    path.write_bytes(b"half")
    print("writing", flush=True)
    try:
        time.sleep(30)
    except SystemExit as ended:
        {unwinding}

def compile_model(model, options, progress):
    report = FusionReport(ModelInfo("m", "0", 18, 1), TargetInfo("cpu", "cpu", "x86-64"), ())
    return CompiledModule(report, (), slow, (), (), "")

module = ModuleType("redfuser.driver")
module.compile_model = compile_model
sys.modules["redfuser.driver"] = module
sys.exit(main(["compile", "m.onnx", "-o", {str(tmp_path / "out")!r}]))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        assert process.wait(timeout=20) == code
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["argparse", "redfuser.errors", "redfuser_cli.parser", "redfuser.progress"])
def test_an_interrupt_while_modules_are_imported(module: str) -> None:
    script = f"""
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
from redfuser_cli.main import main
assert {module!r} not in sys.modules
sys.meta_path.insert(0, Interrupt())
sys.exit(main(["targets"]))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_that_comes_back_as_another_error(redfuser, driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([], 1)
        except KeyboardInterrupt as error:
            raise RuntimeError("from TVM") from error

    monkeypatch.setattr(sys.modules["redfuser.driver"], "analyze_model", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        assert redfuser("analyze", "m.onnx", "-q") == (130, "", "interrupted\n")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_caller_that_ignores_interrupts_is_not_overruled() -> None:
    script = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from redfuser_cli.main import main
code = main(["targets"])
os.kill(os.getpid(), signal.SIGINT)
sys.exit(code)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run([*COMMAND, "targets"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert result.returncode == 141 and result.stderr == ""


def test_output_that_a_terminal_cannot_show_is_escaped(tmp_path: Path, report) -> None:
    from dataclasses import replace

    (tmp_path / "r.json").write_text(replace(report, model=replace(report.model, name="größe.onnx")).to_json())
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([*COMMAND, "report", tmp_path / "r.json"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "gr\\xf6\\xdfe.onnx" in result.stdout, result.stderr
