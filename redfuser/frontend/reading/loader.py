"""Safe loading: a model file is hostile until shown otherwise.

Sizes are checked before reading, the structure before use, and external data is read only from
regular files inside the model's own folder.
"""

from __future__ import annotations

import hashlib
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.errors import ModelError
from redfuser.frontend.model import DEFAULT_LIMITS, MIB, LoadLimits, OnnxModel, opset_of
from redfuser.frontend.normalising.contributed.table import adopt
from redfuser.frontend.normalising.data import copy_fields
from redfuser.frontend.normalising.deprecated import is_withdrawn
from redfuser.frontend.reading.external import load_external_data
from redfuser.frontend.reading.walk import count_nodes, graphs_of, nodes_of, tensors_of

if TYPE_CHECKING:
    from onnx import ModelProto

#: The domain of operators that ONNX has withdrawn, for its checker.
WITHDRAWN = "redfuser.withdrawn"


def load_model(path: Path, limits: LoadLimits = DEFAULT_LIMITS) -> OnnxModel:
    """Read, bound and check an ONNX file.

    Raises:
        ModelError: missing, unreadable, not an ONNX model, truncated, or over a limit.
        UnsafeModelError: external data that leaves the model's folder or isn't a plain file.
    """
    content = _read_file(path, limits.model_bytes)
    proto, digest, size = _parse(path, content), hashlib.sha256(content), len(content)
    del content  # as large as the model itself
    _check_size(path, proto, limits)
    _check_text(path, proto)
    _check_opsets(path, proto)
    size += load_external_data(proto, path.parent, limits.external_bytes, digest)
    _check_tensors(path, proto)
    _check_validity(path, proto)
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
    if not proto.HasField("graph") or not proto.graph.output or proto.ir_version < 1:
        raise ModelError(f"{path} is not an ONNX model: it has no graph with outputs")
    if proto.ir_version < 3:
        raise ModelError(
            f"{path} is of version {proto.ir_version} of ONNX's format, in which no operator set is named",
            "export the model again: version 3 is of 2017",
        )
    return proto


def _check_size(path: Path, proto: ModelProto, limits: LoadLimits) -> None:
    count = count_nodes(proto, limits.depth)
    if count > limits.nodes:
        raise ModelError(f"{path} has {count} nodes; at most {limits.nodes} are accepted")


def _check_text(path: Path, proto: ModelProto) -> None:
    """Protobuf hands over a name that isn't UTF-8 as bytes, which nothing after it expects."""
    if not all(isinstance(text, str) for text in _texts(proto)):
        raise ModelError(f"{path} is not a valid ONNX model: a name in it is not UTF-8")


def _check_opsets(path: Path, proto: ModelProto) -> None:
    """What operators of a later set mean is unknown: the checker takes them for those of the newest that it knows."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    imports = [opset for owner in (proto, *proto.functions) for opset in owner.opset_import]
    versions = [opset.version for opset in imports if opset.domain in ("", "ai.onnx")]
    for version in (version for version in versions if not 1 <= version <= newest):
        raise ModelError(
            f"{path} is of operator set {version}; onnx {onnx.__version__} knows 1 to {newest}",
            "export the model for one of these, or install a newer onnx" if version > newest else "",
        )


def _texts(proto: ModelProto) -> Iterator[object]:
    yield from (opset.domain for opset in proto.opset_import)
    for function in proto.functions:
        yield from (function.domain, function.name, *function.input, *function.output, *function.attribute)
    for node in nodes_of(proto):
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for graph in graphs_of(proto):
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in tensors_of(proto))


def _check_validity(path: Path, proto: ModelProto) -> None:
    import onnx

    checked = _without_weights(proto)
    own = [function for function in checked.functions if opset_of(function) != opset_of(proto)]
    try:
        for function in own:  # the checker of models refuses operators that mean the same in either operator set
            onnx.checker.check_function(function)
            checked.functions.remove(function)
        onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ModelError(f"{path} is not a valid ONNX model: {first_line}") from error


def _without_weights(proto: ModelProto) -> ModelProto:
    """A copy with large initializers emptied: the checker serialises what it checks, and stops at 2 GiB.

    Operators that ONNX has withdrawn are hidden in it, and those that ONNX Runtime writes as if they were ONNX's.
    Inputs and outputs have a shape in it: the checker wants one, though ONNX lets it be unknown.
    """
    import onnx

    copy = onnx.ModelProto()
    copy_fields(proto, copy, "graph")
    copy_fields(proto.graph, copy.graph, "initializer")
    for tensor in proto.graph.initializer:
        large = tensor.ByteSize() > MIB and tensor.HasField("raw_data")
        empty = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0], raw_data=b"")
        copy.graph.initializer.append(empty if large else tensor)
    _hide_withdrawn(copy)
    adopt(copy)
    for value in [*copy.graph.input, *copy.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    return copy


def _hide_withdrawn(proto: ModelProto) -> None:
    """Call what ONNX has withdrawn operators of a domain that the checker doesn't know, and lets pass."""
    hidden = [n for graph in graphs_of(proto) for n in graph.node if is_withdrawn(n, opset_of(proto))]
    for node in hidden:
        node.domain = WITHDRAWN
    if hidden:
        proto.opset_import.add(domain=WITHDRAWN, version=1)


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
