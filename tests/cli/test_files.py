"""Single files that commands write."""

from __future__ import annotations

from pathlib import Path

import pytest

from redfuser.errors import OutputError
from redfuser.tuning.record import is_lock
from redfuser_cli.files import check_file, whole_file
from redfuser_cli.tune import check_lock


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "result.json"
    place.write_text("old")
    with pytest.raises(ValueError), whole_file(place) as partial:
        partial.write_text("half")
        raise ValueError
    assert place.read_text() == "old" and list(tmp_path.iterdir()) == [place]
    with whole_file(place) as partial:
        assert partial.suffix == place.suffix
        partial.write_text("new")
    assert place.read_text() == "new" and list(tmp_path.iterdir()) == [place]


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left"), whole_file(tmp_path / "x"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "missing/x", "folder", "link"])
def test_what_cannot_be_written_is_refused_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("link").symlink_to("nowhere")
    with pytest.raises(OutputError):
        check_file(Path(name))


def test_a_lock_replaces_nothing_but_a_lock(tmp_path: Path) -> None:
    model, lock = tmp_path / "m.onnx", tmp_path / "m.lock"
    model.write_bytes(b"\xff\x00")
    lock.write_text('{"schema": "redfuser.tuning/1"}')
    with pytest.raises(OutputError, match="isn't a tuning lock"):
        check_lock(model)
    check_lock(lock)
    check_lock(tmp_path / "new.lock")
    assert is_lock(lock) and not is_lock(model)
