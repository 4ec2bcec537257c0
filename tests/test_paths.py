"""Paths that no file can have, wherever one is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import redfuser
from redfuser.errors import UsageError
from redfuser.paths import path_of
from redfuser_cli.main import main

NUL = "a\0b"


def test_what_a_file_can_be_called() -> None:
    for name in ("model.onnx", "nothing here", "ä\udc80", ""):  # the third is how Python reads a name that isn't UTF-8
        assert path_of(name) == Path(name)


@pytest.mark.parametrize("name", [NUL, "a\ud800"])
def test_what_no_file_can_be_called(name: str) -> None:
    with pytest.raises(UsageError, match="can't be a path") as caught:
        path_of(name)
    assert caught.value.message.isprintable() and caught.value.message.isascii()


@pytest.mark.parametrize(
    "call",
    [
        lambda: redfuser.compile(NUL),
        lambda: redfuser.compile("model.onnx", output=NUL),
        lambda: redfuser.compile("model.onnx", target=f"{NUL}.toml"),
        lambda: redfuser.analyze(NUL),
        lambda: redfuser.load(NUL),
    ],
)
def test_from_python(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="can't be a path"):
        call()


@pytest.mark.parametrize(
    "argv",
    [
        ["compile", NUL],
        ["compile", "m.onnx", "-o", NUL],
        ["compile", "m.onnx", "--dump", NUL],
        ["compile", "m.onnx", "--tuning-lock", NUL],
        ["compile", "m.onnx", "--target", f"{NUL}.toml"],
        ["analyze", NUL],
        ["report", NUL],
        ["report", "a", "--diff", NUL],
        ["run", NUL],
        ["run", "a", "--inputs", NUL],
        ["verify", NUL],
        ["verify", "a", "--model", NUL],
        ["tune", "m.onnx", "--export", NUL],
        ["bench", "mha", "--output", NUL],
    ],
)
def test_from_the_command_line(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "can't be a path" in capsys.readouterr().err
