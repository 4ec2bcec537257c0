"""Tools that GPU tests need and skip without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redfuser.codegen.gpu import Builder
from redfuser.codegen.gpu.tools.toolchain import Toolchain, find_toolchain
from redfuser.codegen.gpu.tools.toolkit import find_nvcc
from redfuser.errors import MissingToolError
from tests.codegen.gpu.whole.recording import Recorder, build_recorder


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """Everything that kernels are generated with."""
    try:
        return find_toolchain()
    except MissingToolError as missing:
        pytest.skip(f"{missing.message}: {missing.hint}")


@pytest.fixture(scope="session")
def builder(toolchain: Toolchain) -> Iterator[Builder]:
    """A builder of kernels that keeps nothing between runs."""
    with Builder(workers=1, cache=None) as builder:
        yield builder


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """The CUDA compiler."""
    try:
        return find_nvcc()
    except MissingToolError as missing:
        pytest.skip(missing.message)


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """A CUDA driver that records."""
    return build_recorder(tmp_path_factory.mktemp("recorder"))
