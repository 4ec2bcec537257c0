"""Packages whose folder has another name; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["redfuser", "redfuser.*"]),
        "redfuser_cli",
        "redfuser_configs",
        "redfuser_configs.targets",
        "redfuser_configs.workloads",
        "redfuser_models",
    ],
    package_dir={"redfuser_cli": "cli", "redfuser_configs": "configs", "redfuser_models": "models"},
)
