"""Targets by name, from ``configs/targets/*.toml`` or a file of the user's."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redfuser.errors import UnsupportedTargetError
from redfuser.machine.host import read_host
from redfuser.paths import path_of
from redfuser.records import RecordError, decode
from redfuser.targets.cpu import CpuTarget
from redfuser.targets.gpu import GpuTarget

Target = CpuTarget | GpuTarget


def config_folder() -> Path:
    """The folder ``configs``: the installed package, or the checkout's folder when nothing is installed."""
    if find_spec("redfuser_configs") is not None:
        return Path(str(resources.files("redfuser_configs")))
    return Path(__file__).resolve().parents[2] / "configs"


def target_names() -> tuple[str, ...]:
    """Names of the targets that come with redfuser, sorted."""
    return tuple(sorted(path.stem for path in (config_folder() / "targets").glob("*.toml")))


def load_target(name_or_path: str) -> Target:
    """The target of that name, or the one described in a ``.toml`` file.

    ``arch = "host"`` is replaced by what this machine has.

    Raises:
        UsageError: the path of a description can't be one.
        UnsupportedTargetError: no such target, a description that cannot be read, or a host for which
            there is no CPU code.
    """
    own_file = name_or_path.endswith(".toml")
    if not own_file and name_or_path not in target_names():
        near = difflib.get_close_matches(name_or_path, target_names(), n=3, cutoff=0.5)
        raise UnsupportedTargetError(
            f"unknown target {name_or_path!r}",
            f"did you mean {' or '.join(near)}?" if near else "redfuser targets lists the known ones",
        )
    path = path_of(name_or_path) if own_file else config_folder() / "targets" / f"{name_or_path}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return _build(path.stem, data)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecordError) as error:
        raise UnsupportedTargetError(
            f"cannot read the target description {name_or_path!r}: {error}",
            "see configs/targets/cpu-avx2.toml and h800.toml for the keys",
        ) from error


def _build(name: str, data: dict[str, Any]) -> Target:
    kind = data.get("kind")
    if kind not in ("cpu", "gpu"):
        raise RecordError(f"kind: {kind!r} is not 'cpu' or 'gpu'")
    if kind == "cpu" and data.get("arch") == "host":
        host = read_host()
        data = {
            "features": list(host.features),
            "vector_bits": host.vector_bits,
            "cores": host.cores,
            "l1_kb": host.l1_kb,
            "l2_kb": host.l2_kb,
            "l3_kb": host.l3_kb,
            **data,
            "arch": host.level,
        }
    described: type[CpuTarget] | type[GpuTarget] = GpuTarget if kind == "gpu" else CpuTarget
    target = decode(described, {"name": name, **data})
    return replace(target, features=tuple(sorted(target.features)))
