import platform
import shutil

import pytest

from redfuser.codegen.linker import find_linker
from redfuser.errors import MissingToolError


def test_this_machine_has_a_linker() -> None:
    assert shutil.which(find_linker(platform.machine()))


def test_without_a_compiler_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    with pytest.raises(MissingToolError, match="no C\\+\\+ compiler") as caught:
        find_linker(platform.machine())
    assert caught.value.exit_code == 8 and "g++" in caught.value.hint


def test_another_machine_has_a_linker_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert find_linker("aarch64") == "/usr/bin/aarch64-linux-gnu-g++"
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MissingToolError, match="no aarch64-linux-gnu-g\\+\\+") as caught:
        find_linker("aarch64")
    assert "g++-aarch64-linux-gnu" in caught.value.hint
