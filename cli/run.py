"""Run an artifact on given or random inputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.paths import path_of
from redfuser.report.document import plain

from .arguments import add_common, add_device
from .feeds import add_feeds, read_samples
from .files import check_file, whole_file
from .output import print_json

if TYPE_CHECKING:
    import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    parser.add_argument("artifact", type=path_of, metavar="ARTIFACT", help="what compile wrote")
    add_feeds(parser)
    add_device(parser)
    parser.add_argument("-o", "--output", type=path_of, metavar="FILE.npz", help="write the outputs there")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        RedFuserError: the artifact cannot be loaded, an input doesn't fit, or the outputs cannot be written.
    """
    from redfuser.artifact.load import load

    if arguments.output is not None:
        check_file(arguments.output)
    model = load(arguments.artifact, arguments.threads, arguments.device)
    samples = read_samples(arguments, model.manifest)
    _, feeds = samples[len(samples) // 2]  # neither the smallest size nor the largest
    outputs = model(feeds)
    if arguments.output is not None:
        save_arrays(outputs, arguments.output)
    summaries = [summarise(name, array) for name, array in outputs.items()]
    if arguments.format == "json":
        print_json({"schema": "redfuser.run/1", "outputs": summaries})
    else:
        for item in summaries:
            print(_line(item))
    return 0


def summarise(name: str, array: np.ndarray) -> dict[str, Any]:
    """Shape, dtype and, over the finite elements, the smallest, the largest and the mean."""
    import numpy as np

    values = array.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    return {
        "name": name,
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
        "nan": int(np.isnan(values).sum()),
        "inf": int(np.isinf(values).sum()),
    }


def _line(item: dict[str, Any]) -> str:
    text = f"{plain(item['name'])}: {item['dtype']}[{', '.join(map(str, item['shape']))}]"
    if item["min"] is not None:
        text += f"  min {item['min']:.6g}  max {item['max']:.6g}  mean {item['mean']:.6g}"
    return text + "".join(f"  {item[kind]} {kind}" for kind in ("nan", "inf") if item[kind])


def save_arrays(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write an ``.npz`` file; types that NumPy cannot store (bfloat16, float8) become float32, which is exact.

    Raises:
        OutputError: the file cannot be written.
    """
    import zipfile

    import numpy as np

    # Not numpy.savez(**arrays): a name from the model could be one of its own parameters.
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, array in arrays.items():
            stored = array.astype(np.float32) if array.dtype.kind == "V" else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, stored, allow_pickle=False)
