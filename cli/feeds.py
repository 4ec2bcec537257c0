"""Input arrays from files, or random ones."""

from __future__ import annotations

import argparse
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.errors import UsageError
from redfuser.paths import path_of

from .arguments import natural

if TYPE_CHECKING:
    import numpy as np

    from redfuser.artifact.manifest import Manifest
    from redfuser.signature import DimRange, DimSum, TensorSpec


def add_feeds(parser: argparse.ArgumentParser) -> None:
    """``--input``, ``--inputs`` and ``--seed``."""
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="array for one input")
    parser.add_argument("--inputs", type=path_of, metavar="FILE.npz", help="arrays by input name")
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=N", help="size of a symbolic dimension of inputs not given"
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of inputs not given (default: 0)")


def read_samples(
    arguments: argparse.Namespace, manifest: Manifest
) -> list[tuple[dict[str, int], dict[str, np.ndarray]]]:
    """Arrays given in files, and random ones for the inputs left, in several sizes of the symbolic dimensions left.

    Returns:
        Sizes of all symbolic dimensions, and arrays of these sizes; one pair at least.

    Raises:
        UsageError: a file cannot be read or isn't a plain array file, or a name is no input or dimension.
    """
    from redfuser.samples import random_inputs, sample_sizes, with_sums

    specs, sums = manifest.inputs, manifest.sums
    dims = {name: manifest.dims[name] for spec in specs for name in spec.shape if isinstance(name, str)}  # in order
    given = _given(arguments, specs)
    known = _known_sizes(arguments, specs, given, dims)
    known = {**with_sums(known, sums), **known}
    left = tuple(spec for spec in specs if spec.name not in given)
    samples = []
    for sizes in sample_sizes({name: bounds for name, bounds in dims.items() if name not in known}, sums):
        sizes = _all_sizes({**sizes, **known}, known, sums)
        sizes = {name: sizes[name] for name in dims}
        samples.append((sizes, {**random_inputs([spec.at(sizes) for spec in left], arguments.seed), **given}))
    return samples


def _all_sizes(sizes: Mapping[str, int], known: Container[str], sums: Mapping[str, DimSum]) -> dict[str, int]:
    """Sizes of all dimensions; where that of a sum is known, one of what it adds up is what remains."""
    from redfuser.samples import with_sums

    chosen = dict(sizes)
    for name, total in sums.items():
        open_parts = [dim for dim in total.counts if dim not in known]
        if name in known and open_parts:
            chosen[open_parts[-1]] = max(0, total.rest(sizes[name], open_parts[-1], chosen))
    return {**with_sums(chosen, sums), **{name: size for name, size in sizes.items() if name in known}}


def _given(arguments: argparse.Namespace, specs: tuple[TensorSpec, ...]) -> dict[str, np.ndarray]:
    given: dict[str, np.ndarray] = dict(_read_archive(arguments.inputs)) if arguments.inputs else {}
    for item in arguments.input:
        name, found, path = item.rpartition("=")
        if not found or not name or not path:
            raise UsageError(f"--input {item!r} isn't NAME=FILE.npy", "for example --input input_ids=ids.npy")
        given[name] = _read_array(path_of(path))
    unknown = sorted(given.keys() - {spec.name for spec in specs})
    if unknown:
        raise UsageError(f"no input is called {unknown[0]!r}", f"inputs are {', '.join(map(str, specs)) or 'none'}")
    return given


def _known_sizes(
    arguments: argparse.Namespace,
    specs: tuple[TensorSpec, ...],
    given: Mapping[str, np.ndarray],
    dims: Mapping[str, DimRange],
) -> dict[str, int]:
    """Sizes from ``--dim`` and from the arrays given; whether they fit is the artifact's affair."""
    from redfuser.parsing import parse_dims

    sizes: dict[str, int] = {}
    for name, size in parse_dims(arguments.dim, least=0).items():
        if name not in dims:
            raise UsageError(f"--dim: no dimension is called {name!r}", f"there are: {', '.join(dims) or 'none'}")
        if not isinstance(size, int):
            raise UsageError(f"--dim {name}={size}: one size is needed here", f"for example --dim {name}={size.low}")
        sizes[name] = size
    for spec in specs:
        shape = given[spec.name].shape if spec.name in given else ()
        sizes |= {name: size for name, size in zip(spec.shape, shape, strict=False) if isinstance(name, str)}
    return sizes


def _read_archive(path: Path) -> dict[str, np.ndarray]:
    import numpy as np

    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise UsageError(f"{str(path)!r} holds a single array", "give it as --input NAME=FILE.npy")
    return loaded


def _read_array(path: Path) -> np.ndarray:
    loaded = _load(path)
    if isinstance(loaded, dict):
        raise UsageError(f"{str(path)!r} holds several arrays", "give it as --inputs FILE.npz")
    return loaded


def _load(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    import zipfile
    import zlib

    import numpy as np

    try:
        # Never pickles: they run code.
        loaded = np.load(path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}", "save it with numpy.save or numpy.savez") from error
