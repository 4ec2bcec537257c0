"""Safe loading: a model file is hostile until shown otherwise.

Sizes are checked before reading, the structure before use, and external data is read only from
regular files inside the model's own folder.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from redfuser.errors import ModelError, UnsafeModelError
from redfuser.frontend.model import DEFAULT_LIMITS, MIB, LoadLimits, OnnxModel

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

#: Protobuf serialises no message as large as this.
PROTOBUF_BYTES = 2048 * MIB - 1


def load_model(path: Path, limits: LoadLimits = DEFAULT_LIMITS) -> OnnxModel:
    """Read, bound and check an ONNX file.

    Raises:
        ModelError: missing, unreadable, not an ONNX model, truncated, or over a limit.
        UnsafeModelError: external data that leaves the model's folder or isn't a plain file.
    """
    content = _read_file(path, limits.model_bytes)
    proto = _parse(path, content)
    _check_size(path, proto, limits)
    digest = hashlib.sha256(content)
    size = len(content) + _load_external_data(proto, path.parent, limits.external_bytes, digest)
    _check_tensors(path, proto)
    _check_validity(path, proto, size)
    return OnnxModel(path, proto, digest.hexdigest(), size)


def _read_file(path: Path, limit: int) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is not a file", "give the path of an .onnx file")
        if status.st_size > limit:
            raise ModelError(
                f"{path} has {status.st_size // MIB} MiB; at most {limit // MIB} MiB are read",
                "keep the weights as external data beside the model",
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error


def _parse(path: Path, content: bytes) -> ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise ModelError(f"{path} is not an ONNX model, or is truncated") from error
    if not proto.HasField("graph") or not proto.graph.output or proto.ir_version < 3:
        raise ModelError(f"{path} is not an ONNX model: it has no graph with outputs")
    return proto


def _check_size(path: Path, proto: ModelProto, limits: LoadLimits) -> None:
    count = sum(1 for _ in nodes_of(proto, limits.depth))
    if count > limits.nodes:
        raise ModelError(f"{path} has {count} nodes; at most {limits.nodes} are accepted")


def _check_validity(path: Path, proto: ModelProto, size: int) -> None:
    import onnx

    subject = proto if size < PROTOBUF_BYTES else _without_weights(proto)
    try:
        onnx.checker.check_model(subject)
    except onnx.checker.ValidationError as error:
        first_line = str(error).strip().splitlines()[0]
        raise ModelError(f"{path} is not a valid ONNX model: {first_line}") from error


def _without_weights(proto: ModelProto) -> ModelProto:
    """A copy with large initializers emptied: the checker serialises what it checks."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        if len(tensor.raw_data) > MIB:
            tensor.raw_data = b""
            tensor.ClearField("dims")
            tensor.dims.append(0)
    return copy


def nodes_of(proto: ModelProto, depth: int = 1000) -> Iterator[NodeProto]:
    """Every node: graph, subgraphs, functions.

    Raises:
        ModelError: subgraphs nest deeper than ``depth``.
    """
    pending: list[tuple[int, NodeProto]] = [(0, node) for node in proto.graph.node]
    pending += [(0, node) for function in proto.functions for node in function.node]
    while pending:
        level, node = pending.pop()
        yield node
        for attribute in node.attribute:
            for graph in _graphs(attribute):
                if level >= depth:
                    raise ModelError(f"node '{node.name}': subgraphs nest deeper than {depth} levels")
                pending += [(level + 1, inner) for inner in graph.node]


def _graphs(attribute: AttributeProto) -> list[GraphProto]:
    return ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


def tensors_of(proto: ModelProto) -> Iterator[TensorProto]:
    """Every tensor: initializers, sparse ones, attributes, in subgraphs and functions too."""
    graphs = [proto.graph]
    attributes = [a for function in proto.functions for a in function.attribute_proto]
    for node in nodes_of(proto):
        attributes += node.attribute
    for attribute in attributes:
        graphs += _graphs(attribute)
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse = ([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []) + list(
            attribute.sparse_tensors
        )
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)
    for graph in graphs:
        yield from graph.initializer
        for tensor in graph.sparse_initializer:
            yield from (tensor.values, tensor.indices)


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's data lies in another file (or claims to)."""
    from onnx import TensorProto

    return tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)


def _load_external_data(proto: ModelProto, folder: Path, limit: int, digest: hashlib._Hash) -> int:
    total = 0
    for tensor in tensors_of(proto):
        if is_external(tensor):
            data = _read_external(tensor, folder, limit - total)
            total += len(data)
            digest.update(f"{tensor.name}:{len(data)}:".encode())
            digest.update(data)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data
    return total


def _read_external(tensor: TensorProto, folder: Path, limit: int) -> bytes:
    """The bytes of one external tensor; every check is made on the opened file, not on its name."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"tensor '{tensor.name}': external data '{location}'"
    descriptor = _open_inside(folder, location, what)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeModelError(f"{what} is not a regular file")
        if status.st_nlink > 1:
            raise UnsafeModelError(f"{what} is a hard link", "copy the data file beside the model")
        try:
            offset = int(entries.get("offset", "0") or 0)
            length = int(entries.get("length", "") or status.st_size - offset)
        except ValueError as error:
            raise ModelError(f"{what} has an offset or length that is not a number") from error
        if offset < 0 or length < 0 or offset + length > status.st_size:
            raise UnsafeModelError(f"{what} reaches past the end of its file ({status.st_size} bytes)")
        if length > limit:
            raise ModelError(f"{what} exceeds the limit on external data")
        file.seek(offset)
        return file.read(length)


def _open_inside(folder: Path, location: str, what: str) -> int:
    """Open a file below ``folder``, following no link on the way."""
    parts = PurePosixPath(location).parts
    if not parts or "\\" in location or "\0" in location or PurePosixPath(location).is_absolute() or ".." in parts:
        raise UnsafeModelError(f"{what} is not a path inside the model's folder", "keep the data beside the model")
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            parent, opened = opened, os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(parent)
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
    except FileNotFoundError as error:
        raise ModelError(f"{what} does not exist") from error
    except OSError as error:
        raise UnsafeModelError(f"{what} cannot be opened as a plain file: {error.strerror}") from error
    finally:
        os.close(opened)


def _check_tensors(path: Path, proto: ModelProto) -> None:
    """The data of each raw tensor has the size its shape and type say."""
    from onnx import helper

    for tensor in tensors_of(proto):
        if not tensor.HasField("raw_data"):
            continue
        count = math.prod(tensor.dims)
        try:
            bits = _bits(helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except (KeyError, TypeError) as error:
            raise ModelError(f"{path}: tensor '{tensor.name}' has an unknown element type") from error
        if min(tensor.dims, default=0) < 0 or len(tensor.raw_data) != (count * bits + 7) // 8:
            raise ModelError(
                f"{path}: tensor '{tensor.name}' of shape {list(tensor.dims)} has {len(tensor.raw_data)} bytes of data"
            )


def _bits(dtype: object) -> int:
    """Width of an element; the 4- and 2-bit types are packed."""
    import numpy

    name = str(dtype)
    if name in ("int4", "uint4", "float4_e2m1fn"):
        return 4
    if name in ("int2", "uint2"):
        return 2
    return numpy.dtype(dtype).itemsize * 8  # type: ignore[call-overload]
