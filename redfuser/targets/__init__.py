"""Devices to compile for, described in ``configs/targets/*.toml``."""

from redfuser.targets.cpu import CpuTarget
from redfuser.targets.gpu import GPU_FEATURES, GpuTarget
from redfuser.targets.load import Target, config_folder, load_target, target_names

__all__ = [
    "GPU_FEATURES",
    "CpuTarget",
    "GpuTarget",
    "Target",
    "config_folder",
    "load_target",
    "target_names",
]
