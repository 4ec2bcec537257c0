import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from redfuser.artifact.contents import CompiledModule, KernelFiles
from redfuser.artifact.manifest import read_manifest
from redfuser.artifact.verify import read_report, verify_files
from redfuser.artifact.write import write_artifact, write_dump
from redfuser.errors import OutputError, UsageError, VerificationError
from redfuser.options import CompileOptions
from redfuser.report.value import FusionReport
from redfuser.signature import TensorSpec
from redfuser.targets import load_target

OPTIONS = CompileOptions(load_target("cpu-avx2"), dims={"batch": 1})


def write_module(path: Path) -> None:
    path.write_bytes(b"machine code")


@pytest.fixture
def compiled(report: FusionReport) -> CompiledModule:
    return CompiledModule(
        report=report,
        kernels=(KernelFiles("cascade_0", {"tile.txt": "program\n", "kernel.tir": "tir\n"}),),
        module_writer=write_module,
        inputs=(TensorSpec("x", (4, 512), "float32"),),
        outputs=(TensorSpec("y", (4, 512), "float32"),),
        tuning_lock="{}\n",
        dump={"lowered": "text", "tile": "more"},
    )


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_layout_and_manifest(compiled: CompiledModule, tmp_path: Path) -> None:
    output = tmp_path / "m.redfuser"
    manifest = write_artifact(compiled, OPTIONS, output)
    files = {"module.so", "report.json", "tuning.lock", "kernels/cascade_0/tile.txt", "kernels/cascade_0/kernel.tir"}
    assert set(snapshot(output)) == files | {"manifest.json"}
    assert set(manifest.files) == files
    assert manifest == read_manifest(output) == verify_files(output)
    assert manifest.options.dims == {"batch": 1} and manifest.options_digest == OPTIONS.digest()
    assert read_report(output) == read_report(output / "report.json") == compiled.report
    assert list(tmp_path.iterdir()) == [output]


def test_rebuilds_are_byte_identical_and_name_no_place(compiled: CompiledModule, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = tmp_path / "a", tmp_path / "elsewhere" / "b"
    write_artifact(compiled, OPTIONS, first)
    write_artifact(compiled, OPTIONS, second)
    assert snapshot(first) == snapshot(second)
    assert all(str(tmp_path).encode() not in content for content in snapshot(first).values())


def test_the_folder_has_ordinary_permissions(compiled: CompiledModule, tmp_path: Path) -> None:
    write_artifact(compiled, OPTIONS, tmp_path / "a")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_artifact_is_replaced_only_with_force(compiled: CompiledModule, tmp_path: Path) -> None:
    output = tmp_path / "a"
    write_artifact(compiled, OPTIONS, output)
    (output / "kernels" / "old.txt").write_text("left over")
    with pytest.raises(OutputError, match="exists") as caught:
        write_artifact(compiled, OPTIONS, output)
    assert "--force" in caught.value.hint and caught.value.exit_code == 2
    write_artifact(compiled, OPTIONS, output, force=True)
    assert "kernels/old.txt" not in snapshot(output)
    assert list(tmp_path.iterdir()) == [output]


def test_an_empty_folder_is_used(compiled: CompiledModule, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_artifact(compiled, OPTIONS, tmp_path / "a")
    assert (tmp_path / "a" / "manifest.json").is_file()


@pytest.mark.parametrize("manifest", [None, "", "{}", '{"schema": "redfuser.artifact/1"}', '{"schema": "other/1"}'])
def test_a_folder_of_something_else_is_never_replaced(compiled, tmp_path: Path, manifest: str | None) -> None:
    output = tmp_path / "a"
    output.mkdir()
    (output / "precious").write_text("data")
    if manifest is not None:
        (output / "manifest.json").write_text(manifest)
    before = snapshot(output)
    with pytest.raises(OutputError, match="isn't a redfuser artifact"):
        write_artifact(compiled, OPTIONS, output, force=True)
    assert snapshot(output) == before and list(tmp_path.iterdir()) == [output]


def test_files_links_and_missing_parents_are_refused(compiled: CompiledModule, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("data")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link_to_folder").symlink_to(tmp_path / "folder")
    for name in ("file", "link", "link_to_folder"):
        with pytest.raises(OutputError, match="isn't a folder"):
            write_artifact(compiled, OPTIONS, tmp_path / name, force=True)
    for name in ("absent/a", "file/a"):
        with pytest.raises(OutputError, match="doesn't exist"):
            write_artifact(compiled, OPTIONS, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "link", "link_to_folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_parent_is_refused(compiled: CompiledModule, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="cannot be written"):
            write_artifact(compiled, OPTIONS, tmp_path / "a")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("bug"), KeyboardInterrupt()])
@pytest.mark.parametrize("existing", [False, True])
def test_nothing_is_left_when_writing_fails(compiled, tmp_path: Path, error: BaseException, existing: bool) -> None:
    output = tmp_path / "a"
    if existing:
        write_artifact(compiled, OPTIONS, output)
    before = snapshot(tmp_path)

    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write_artifact(replace(compiled, module_writer=fail), OPTIONS, output, force=True)
    assert snapshot(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == (["a"] if existing else [])


def test_an_old_artifact_comes_back_when_the_rename_fails(compiled, tmp_path: Path, monkeypatch) -> None:
    output = tmp_path / "a"
    write_artifact(compiled, OPTIONS, output)
    before = snapshot(tmp_path)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OutputError, match="Input/output error"):
        write_artifact(compiled, OPTIONS, output, force=True)
    assert snapshot(tmp_path) == before and list(tmp_path.iterdir()) == [output]


def test_verify_names_what_is_wrong(compiled: CompiledModule, tmp_path: Path) -> None:
    output = tmp_path / "a"
    write_artifact(compiled, OPTIONS, output)
    (output / "module.so").write_bytes(b"machine codE")
    (output / "tuning.lock").unlink()
    (output / "extra").write_text("")
    (output / "report.json").unlink()
    (output / "report.json").symlink_to("/etc/passwd")
    with pytest.raises(VerificationError) as caught:
        verify_files(output)
    for problem in (
        "module.so has changed",
        "tuning.lock is missing",
        "extra isn't in the manifest",
        "report.json isn't a regular file",
    ):
        assert problem in caught.value.message
    assert caught.value.exit_code == 6


def test_a_manifest_cannot_point_outside(compiled: CompiledModule, tmp_path: Path) -> None:
    output = tmp_path / "a"
    write_artifact(compiled, OPTIONS, output)
    manifest = json.loads((output / "manifest.json").read_text())
    manifest["files"]["../../etc/passwd"] = {"sha256": "0" * 64, "size": 1}
    (output / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(VerificationError, match="passwd is missing"):
        verify_files(output)


def test_no_artifact_and_a_newer_one(compiled: CompiledModule, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="isn't a redfuser artifact"):
            verify_files(place)
    output = tmp_path / "a"
    write_artifact(compiled, OPTIONS, output)
    text = (output / "manifest.json").read_text()
    (output / "manifest.json").write_text(text.replace("redfuser.artifact/1", "redfuser.artifact/2"))
    with pytest.raises(VerificationError, match=r"'redfuser\.artifact/2' is not 'redfuser\.artifact/1'"):
        verify_files(output)


def test_dump_writes_one_file_a_stage(compiled: CompiledModule, tmp_path: Path) -> None:
    write_dump(compiled.dump, tmp_path / "deep" / "dump")
    assert snapshot(tmp_path / "deep" / "dump") == {"00-lowered.txt": b"text\n", "01-tile.txt": b"more\n"}
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write the dump"):
        write_dump(compiled.dump, tmp_path / "file")


def test_what_another_compile_wrote_meanwhile_stays(compiled: CompiledModule, tmp_path: Path) -> None:
    output = tmp_path / "m.redfuser"

    def overtaken(path: Path) -> None:
        write_artifact(compiled, OPTIONS, output)
        path.write_bytes(b"late")

    with pytest.raises(OutputError, match="exists"):
        write_artifact(replace(compiled, module_writer=overtaken), OPTIONS, output)
    assert (output / "module.so").read_bytes() == b"machine code" and list(tmp_path.iterdir()) == [output]
