"""What the process that reads a model and the one that compiles it hand each other: files in a folder.

``request.json`` goes in. ``reply.json`` comes out, and with it ``model.onnx`` and ``weights.bin``, which holds the data
of large initializers: protobuf serialises no message over 2 GiB, and a file can be mapped instead of read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.contents import ALIGNMENT
from redfuser.errors import RedFuserError
from redfuser.frontend.model import LoadLimits, PreparedModel
from redfuser.records import RecordError, decode, encode, parse, to_text
from redfuser.signature import DimRange

if TYPE_CHECKING:
    import numpy
    from onnx import ModelProto

    Array = numpy.ndarray[Any, Any]

REQUEST, REPLY, MODEL, WEIGHTS = "request.json", "reply.json", "model.onnx", "weights.bin"

#: Data of initializers from this size on goes to a file of its own.
LARGE_BYTES = 4096


@dataclass(frozen=True)
class Request:
    """What to read, and how."""

    path: str
    dims: Mapping[str, int | DimRange]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, tuple[float, ...]]
    limits: LoadLimits
    convolves_bytes: bool = False


@dataclass(frozen=True)
class Reply:
    """A :class:`PreparedModel` but for its graph.

    Args:
        weights: of each initializer whose data is in ``weights.bin``, in its order there: its place in the graph and
            its bytes.
    """

    digest: str
    size: int
    opset: int
    nodes: int
    dims: Mapping[str, DimRange]
    weights: tuple[tuple[int, ...], ...]


def read_request(folder: Path) -> Request:
    return decode(Request, parse((folder / REQUEST).read_text(encoding="utf-8")))


def write_refusal(folder: Path, error: RedFuserError) -> None:
    (folder / REPLY).write_text(to_text(error.as_dict()), encoding="utf-8")


def write_prepared(folder: Path, model: PreparedModel) -> None:
    """Write a model. Its graph loses the data that goes to ``weights.bin``."""
    weights = []
    with (folder / WEIGHTS).open("wb") as file:
        for place, tensor in enumerate(model.proto.graph.initializer):
            if len(tensor.raw_data) >= LARGE_BYTES:
                weights.append((place, file.write(tensor.raw_data)))
                file.write(bytes(-file.tell() % ALIGNMENT))
                tensor.ClearField("raw_data")
    (folder / MODEL).write_bytes(model.proto.SerializeToString(deterministic=True))
    reply = Reply(model.digest, model.size, model.opset, model.nodes, model.dims, tuple(weights))
    (folder / REPLY).write_text(to_text(encode(reply)), encoding="utf-8")


def read_prepared(folder: Path, path: Path) -> PreparedModel:
    """Read what :func:`write_prepared` wrote; weights stay where they are, and their file may be unlinked.

    Args:
        path: of the model's file.

    Raises:
        RecordError: the files contradict each other.
    """
    import onnx
    from google.protobuf.message import DecodeError

    reply = decode(Reply, parse((folder / REPLY).read_text(encoding="utf-8")))
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString((folder / MODEL).read_bytes())
    except DecodeError as error:
        raise RecordError("the normalised model is not an ONNX model") from error
    weights = _map(proto, reply, folder / WEIGHTS)
    return PreparedModel(path, proto, reply.digest, reply.size, reply.opset, reply.nodes, reply.dims, weights)


def _map(proto: ModelProto, reply: Reply, path: Path) -> dict[str, Array]:
    """The bytes of each initializer in a file, by its name: pages that are read when they are used."""
    import numpy

    nothing = not path.stat().st_size  # which can't be mapped
    mapped = numpy.zeros(0, numpy.uint8) if nothing else numpy.memmap(path, numpy.uint8, "c")
    weights: dict[str, Array] = {}
    start = 0
    for entry in reply.weights:
        place, length = entry if len(entry) == 2 else (-1, 0)
        end = start + length
        if not 0 <= place < len(proto.graph.initializer) or not start < end <= mapped.size:
            raise RecordError("the weights don't fit the normalised model")
        weights[proto.graph.initializer[place].name] = numpy.asarray(mapped[start:end])
        start = end + -end % ALIGNMENT
    return weights
