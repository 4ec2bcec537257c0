"""The C++ compiler that links generated code, for this machine or another."""

from __future__ import annotations

import platform
import shutil

from redfuser.errors import MissingToolError


def find_linker(machine: str) -> str:
    """The command that links shared libraries for a kind of processor.

    Args:
        machine: as :func:`platform.machine` names it.

    Raises:
        MissingToolError: there is none here.
    """
    from tvm.support import cc

    if machine == platform.machine():
        if (own := cc.get_cc()) is None:
            raise MissingToolError("no C++ compiler was found to link the module with", "install g++ or clang")
        return str(own)
    name = f"{machine}-linux-gnu-g++"
    if (cross := shutil.which(name)) is None:
        package = f"g++-{machine.replace('_', '-')}-linux-gnu"
        raise MissingToolError(
            f"no {name} was found to link a module for {machine} with",
            f"install it (for example apt-get install {package}), or compile on an {machine} machine",
        )
    return cross
