"""What gets installed: every folder of Python files, and the data files that are read from them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    """Where a package's files lie."""
    first, *rest = package.split(".")
    return ROOT.joinpath(SETTINGS["package-dir"].get(first, first), *rest)


def test_every_folder_of_python_files_is_a_package_that_gets_installed() -> None:
    listed = {folder_of(package) for package in SETTINGS["packages"]}
    assert len(listed) == len(SETTINGS["packages"]), "a package is listed twice"
    found = {file.parent for top in ("redfuser", "cli", "configs", "models") for file in (ROOT / top).rglob("*.py")}
    assert listed - found <= {ROOT / "configs" / "targets", ROOT / "configs" / "workloads"}, "listed but not there"
    assert found <= listed, "missing in the list of packages in pyproject.toml"


def test_data_files_are_installed() -> None:
    patterns = {
        folder_of(package) / pattern for package, files in SETTINGS["package-data"].items() for pattern in files
    }
    data = [
        p
        for top in ("redfuser", "configs")
        for p in (ROOT / top).rglob("*")
        if p.suffix in (".toml", ".c", ".cu", ".h")
    ]
    assert data and all(file.parent / f"*{file.suffix}" in patterns for file in data)
