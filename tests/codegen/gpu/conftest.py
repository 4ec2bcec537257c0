"""A builder of kernels, where the tools are installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redfuser.codegen.gpu import Builder
from redfuser.codegen.gpu.toolchain import find_toolchain
from redfuser.errors import MissingToolError


@pytest.fixture(scope="session")
def builder() -> Iterator[Builder]:
    """Keeps nothing between runs."""
    try:
        find_toolchain()
    except MissingToolError as missing:
        pytest.skip(f"{missing.message}: {missing.hint}")
    with Builder(workers=1, cache=None) as builder:
        yield builder
