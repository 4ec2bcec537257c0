"""What is measured: an ONNX file, or the cases of a workload file under ``configs/workloads``."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.errors import UsageError
from redfuser.records import RecordError, decode
from redfuser.targets import config_folder

if TYPE_CHECKING:
    from onnx import ModelProto

Argument = int | float | str | bool


@dataclass(frozen=True)
class Case:
    """One graph to measure.

    Args:
        name: unique in its workload.
        builder: ``module.function`` below the package of model builders.
        arguments: what the builder is called with.
        torch: the same in PyTorch: a name in ``PEERS`` of :mod:`redfuser.artifact.runner.torch_peers`, or empty.
        whole: whether the graph is nothing but its cascades, so that their work is the graph's.
    """

    name: str
    builder: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    torch: str = ""
    whole: bool = True

    def model(self) -> ModelProto:
        """The graph.

        Raises:
            UsageError: there is no such builder, or it doesn't take these arguments.
        """
        module, _, function = self.builder.rpartition(".")
        package = "redfuser_models" if find_spec("redfuser_models") is not None else "models"
        try:
            proto: ModelProto = getattr(import_module(f"{package}.{module}"), function)(**self.arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"{self.name}: cannot build {self.builder}: {error}", "see configs/workloads") from error
        return proto


@dataclass(frozen=True)
class Workload:
    """A workload file.

    Args:
        description: one line for people.
        cases: what is measured.
    """

    description: str
    cases: tuple[Case, ...]

    def __str__(self) -> str:
        return "\n".join([self.description, *(f"  {case.name}: {dict(case.arguments)}" for case in self.cases)])


def workload_names() -> tuple[str, ...]:
    """Names of the workloads that come with redfuser, sorted."""
    return tuple(sorted(path.stem for path in (config_folder() / "workloads").glob("*.toml")))


def load_workload(name_or_path: str) -> Workload:
    """The workload of that name, or the one in a ``.toml`` file.

    Keys of the file's top level but ``description`` and ``cases`` are defaults of every case.

    Raises:
        UsageError: no such workload, or a file that can't be read.
    """
    own_file = name_or_path.endswith(".toml")
    if not own_file and name_or_path not in workload_names():
        near = difflib.get_close_matches(name_or_path, workload_names(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known ones are {', '.join(workload_names())}"
        raise UsageError(f"unknown workload {name_or_path!r}", hint)
    path = Path(name_or_path) if own_file else config_folder() / "workloads" / f"{name_or_path}.toml"
    try:
        return decode(Workload, _spread(tomllib.loads(path.read_text(encoding="utf-8"))))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecordError) as error:
        raise UsageError(f"cannot read the workload {name_or_path!r}: {error}", "see configs/workloads") from error


def known_case(sha256: str) -> Case | None:
    """The case that a model with this digest is the graph of, in the workloads that come with redfuser.

    Graphs that are more than cascades aren't built for that: they are large, and PyTorch has no peer of them here.
    """
    for name in workload_names():
        for case in load_workload(name).cases:
            if case.whole and hashlib.sha256(case.model().SerializeToString()).hexdigest() == sha256:
                return case
    return None


def _spread(data: dict[str, Any]) -> dict[str, Any]:
    """Defaults put into every case; a case's own arguments are added to the default ones."""
    defaults = {key: value for key, value in data.items() if key not in ("description", "cases")}
    cases = data.get("cases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise RecordError("cases: expected a list of tables")
    shared = defaults.get("arguments", {})
    spread = [{**defaults, **case, "arguments": {**shared, **case.get("arguments", {})}} for case in cases]
    return {"description": data.get("description", ""), "cases": spread}
