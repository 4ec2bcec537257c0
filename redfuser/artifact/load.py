"""Load an artifact and run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from redfuser.artifact.device import check_device, open_device
from redfuser.artifact.kept import Kept
from redfuser.artifact.library import open_library
from redfuser.artifact.manifest import MODULE, Manifest, read_manifest
from redfuser.errors import MissingToolError, UsageError, VerificationError
from redfuser.machine.host import usable_cores
from redfuser.machine.threads import require_threads, require_workers, threads_asked_for, use_threads
from redfuser.paths import path_of
from redfuser.signature import DimRange, DimSum, TensorSpec


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A module ready to run. Calls from several threads take turns; to run some at once, load it once for each.

    TVM keeps workers for each thread that calls, and at that thread's end waits for theirs. A process forked from such
    a thread has none: there a call is refused, and the process must end by ``os._exit``, as those of
    :mod:`multiprocessing` do. So load before the fork and call after it; a call that must come before may be made in
    another thread, or with one worker alone.

    Args:
        manifest: of the artifact.
        machine: TVM's virtual machine, which has one set of registers; its functions by name.
        device: that it runs on.
        turn: held while the machine runs.
        kept: bounds the memory of arrays that are gone, where sizes differ from call to call.
    """

    manifest: Manifest
    machine: Any
    device: Any
    turn: Lock = field(default_factory=Lock, repr=False)
    kept: Kept = field(default_factory=Kept, repr=False)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What a call takes."""
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What a call gives."""
        return self.manifest.outputs

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the module once.

        Args:
            feeds: an array for every input, by name; dtype exactly as in ``inputs``, and shape but for symbolic
                dimensions, which may have any size in the manifest's range.

        Returns:
            An array for every output, by name; the caller's own. On a processor neither inputs nor outputs are copied:
            the memory of an output goes back to TVM, for a later call, when the array is gone.

        Raises:
            UsageError: names the input that is missing, unknown, or of another shape or dtype; or the process was
                forked after a call.
        """
        from redfuser.artifact.runtime import is_tensor, to_device, to_host

        arrays = check_feeds(self.inputs, feeds, self.manifest.dims, self.manifest.sums)
        require_workers(gpu=self.manifest.target.kind != "cpu")
        with self.turn:
            if self.manifest.dims:
                self.kept.before_call(tuple(array.shape for array in arrays))
            result = self.machine["main"](*(to_device(array, self.device) for array in arrays))
            results = [result] if is_tensor(result) else list(result)
            return {spec.name: to_host(tensor) for spec, tensor in zip(self.outputs, results, strict=True)}


def check_feeds(
    specs: tuple[TensorSpec, ...],
    feeds: Mapping[str, np.ndarray],
    dims: Mapping[str, DimRange] | None = None,
    sums: Mapping[str, DimSum] | None = None,
) -> list[np.ndarray]:
    """The arrays in calling order, contiguous and aligned, in this machine's byte order.

    Args:
        dims: range of each symbolic dimension.
        sums: what those of them have to be that others decide.

    Raises:
        UsageError: see :meth:`LoadedModel.__call__`; or a dimension is out of its range, differs between inputs, or
            isn't the sum that it has to be.
    """
    signature = f"the module takes {', '.join(map(str, specs)) or 'no inputs'}"
    if not isinstance(feeds, Mapping):
        raise UsageError(f"inputs come as a mapping of names to arrays, not as a {type(feeds).__name__}", signature)
    known = {spec.name for spec in specs}
    unknown = [name for name in feeds if name not in known]
    if unknown:
        raise UsageError(f"no input is called {unknown[0]!r}", signature)
    arrays = []
    sizes: dict[str, int] = {}
    for spec in specs:
        if spec.name not in feeds:
            raise UsageError(f"input {spec.name!r} is missing", signature)
        array = _array(spec.name, feeds[spec.name])
        fits = len(array.shape) == len(spec.shape) and array.dtype.name == spec.dtype
        if not fits or any(isinstance(n, int) and n != m for n, m in zip(spec.shape, array.shape, strict=True)):
            found = TensorSpec(spec.name, array.shape, array.dtype.name)
            raise UsageError(
                f"input {found} doesn't fit the module's {spec}", "compile for other shapes, or convert it"
            )
        _bind_sizes(spec, array.shape, sizes, dims or {})
        native = array.dtype.newbyteorder("=")
        arrays.append(np.require(array, native, ("C_CONTIGUOUS", "ALIGNED")).reshape(array.shape))
    _require_sums(sizes, sums or {})
    return arrays


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except Exception as error:  # whatever the value's own conversion raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"input {name!r} can't be made an array: {reason}") from error


def _bind_sizes(spec: TensorSpec, shape: tuple[int, ...], sizes: dict[str, int], dims: Mapping[str, DimRange]) -> None:
    """Add the sizes that an input gives its symbolic dimensions."""
    for name, size in zip(spec.shape, shape, strict=True):
        if not isinstance(name, str):
            continue
        if name in dims and size not in dims[name]:
            low, high = dims[name].low, dims[name].high
            raise UsageError(
                f"dimension {name!r} of input {spec.name!r} is {size}; the module takes {low} to {high}",
                f"compile with --dim {name}={min(low, max(size, 1))}:{max(high, size)}, if the model's tables reach",
            )
        if sizes.setdefault(name, size) != size:
            raise UsageError(
                f"dimension {name!r} is {size} in input {spec.name!r} and {sizes[name]} in another input",
                "give inputs that agree",
            )


def _require_sums(sizes: Mapping[str, int], sums: Mapping[str, DimSum]) -> None:
    for name, total in sums.items():
        if sizes[name] != total.at(sizes):
            values = ", ".join(f"{dim!r} is {sizes[dim]}" for dim in total.counts)
            raise UsageError(
                f"dimension {name!r} is {sizes[name]}, but has to be {total}: {total.at(sizes)}, since {values}",
                f"give inputs that agree, or compile with --dim {' or --dim '.join(f'{d}=N' for d in total.counts)}",
            )


def load(path: str | Path, threads: int | None = None, device: str | None = None) -> LoadedModel:
    """Load the artifact in a folder.

    TVM runs one thread unless told otherwise, and reads the number when it first runs: so ``threads`` (or, where
    neither it nor a variable of :data:`redfuser.machine.threads.THREADS_VARIABLES` is set, the cores of this
    machine) takes effect for the first artifact that a thread runs.

    Args:
        path: what ``compile`` wrote.
        threads: worker threads, 1 to 1024; all cores if not given.
        device: ``cpu``, ``cuda`` or ``cuda:1``; the first device of the target's kind if not given.

    Raises:
        UsageError: the folder isn't an artifact, or no folder can have this path; the device isn't of the kind it was
            compiled for; or ``threads`` is no number of threads.
        VerificationError: its manifest or module cannot be read.
        MissingToolError: apache-tvm isn't usable, or this machine lacks what the module was compiled for.
    """
    require_threads(threads)
    folder = path_of(path)
    manifest = read_manifest(folder)
    if not (folder / MODULE).is_file():
        raise VerificationError(f"{str(folder / MODULE)!r} is missing", "compile the model again")
    _check_size(manifest, folder / MODULE)
    number = check_device(manifest.target, device)
    use_threads(usable_cores() if threads is None and not threads_asked_for() else threads)
    return _open(manifest, folder / MODULE, number)


def _check_size(manifest: Manifest, module: Path) -> None:
    """Refuse a module that was cut short: reading beyond its end would end this process."""
    size, recorded = module.stat().st_size, manifest.files.get(MODULE)
    if recorded is not None and recorded.size != size:
        raise VerificationError(
            f"{str(module)!r} has {size} bytes instead of {recorded.size}", "copy it again, or compile the model again"
        )


def _open(manifest: Manifest, module: Path, number: int) -> LoadedModel:
    try:
        from redfuser.artifact.runtime import load_runtime, start

        load_runtime()
        device = open_device(manifest.target, number)
    except (ImportError, OSError) as error:
        raise MissingToolError(
            f"apache-tvm cannot be loaded: {error}", "redfuser doctor says what is missing"
        ) from error
    # TVM raises whatever its loader meets: OSError, RuntimeError or a class of its own below it.
    try:
        # What a GPU has loaded outlives the library: closing that, to open it again, would fill the GPU.
        machine = start(open_library(module, keep=manifest.target.kind != "cpu"), device)
    except (OSError, RuntimeError, ValueError, AttributeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise VerificationError(
            f"{str(module)!r} cannot be loaded: {first}", "redfuser verify checks its files"
        ) from error
    return LoadedModel(manifest, machine, device, kept=Kept(device if manifest.target.kind == "gpu" else None))
