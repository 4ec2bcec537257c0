"""Static and symbolic spellings of one model: the same verdict, and the right numbers whatever the sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, shape_inference

import redfuser as library
from models import reductions
from models.attention import attention
from models.cascades import parsed
from redfuser.accuracy import compare
from redfuser.artifact.load import LoadedModel
from redfuser.errors import VerificationError
from redfuser.frontend import load_model
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.samples import random_inputs
from redfuser.signature import DimRange

Names = Mapping[str, Mapping[int, str]]

ROWS: Names = {"x": {0: "rows", 1: "width"}}
SELF: Names = {name: {0: "batch", 2: "n"} for name in "qkv"}
CROSS: Names = {"q": {0: "batch", 2: "m"}, "k": {0: "batch", 2: "n"}, "v": {0: "batch", 2: "n"}}
MASKED: Names = {**CROSS, "mask": {0: "batch", 2: "m", 3: "n"}}

#: Keys are projected with heads and keys in one dimension, so that the size of a tensor is a product.
FLATTENED = """g (float[2,3,4,8] q, float[2,3,5,8] k, float[2,3,5,8] v, float[8,8] w) => (float[2,3,4,8] y)
    <int64[2] flat = {-1, 8}> {
    f = Reshape(k, flat)  p = MatMul(f, w)  s = Shape(k)  kp = Reshape(p, s)  kt = Transpose<perm=[0,1,3,2]>(kp)
    a = MatMul(q, kt)  e = Softmax<axis=-1>(a)  y = MatMul(e, v) }"""

CASES: dict[str, tuple[ModelProto, Names]] = {
    "softmax": (reductions.softmax(), ROWS),
    "softmax by hand": (reductions.softmax(spelling="handwritten"), ROWS),
    "logsumexp": (reductions.logsumexp(), ROWS),
    "variance": (reductions.variance(), ROWS),
    "inertia": (reductions.inertia(), {name: ROWS["x"] for name in ("mass", "x", "y")}),
    "layer norm": (reductions.layer_norm(), {"x": {0: "rows"}}),
    "rms norm": (reductions.rms_norm(), {"x": {0: "rows"}}),
    "routing": (reductions.routing(), {"x": {0: "tokens"}}),
    "attention": (attention(), SELF),
    "cross attention": (attention("divided"), CROSS),
    "boolean mask": (attention("eager", mask="boolean"), MASKED),
    "additive mask": (attention("handwritten", mask="additive"), MASKED),
    "replacement": (attention("replacement", mask="boolean"), MASKED),
    "scaled query": (attention("scaled_query", softcap=2.0), CROSS),
    "flattened keys": (parsed(FLATTENED), CROSS),
    "operator": (attention("operator"), CROSS),
    "causal operator": (attention("operator", mask="causal"), SELF),
    "decoding": (attention(q_len=1), {"q": {0: "batch"}, "k": CROSS["k"], "v": CROSS["v"]}),
}

#: One, primes, tiles and their neighbours, the upper bound; each dimension long while the others are short.
SIZES = [
    (1, 1, 1),
    (7, 5, 3),
    (16, 16, 16),
    (17, 15, 33),
    (64, 64, 64),
    (65, 63, 1),
    (2, 3, 200),
    (3, 200, 2),
    (1, 67, 129),
]


def symbolic(proto: ModelProto, names: Names) -> ModelProto:
    """The model with named dimensions."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for value in result.graph.input:
        for place, name in names.get(value.name, {}).items():
            value.type.tensor_type.shape.dim[place].dim_param = name
    for output in result.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(result)
    for output, found in zip(result.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(found)
    return result


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_that_of_the_static_model(name: str, tmp_path: Path) -> None:
    proto, names = CASES[name]
    onnx.save(proto, tmp_path / "static.onnx")
    onnx.save(symbolic(proto, names), tmp_path / "symbolic.onnx")
    static, dynamic = (library.analyze(tmp_path / f"{kind}.onnx").cascades for kind in ("static", "symbolic"))
    assert static and [(c.kind, c.exactness) for c in dynamic] == [(c.kind, c.exactness) for c in static]


def compiled(name: str, folder: Path) -> tuple[ModelProto, LoadedModel]:
    proto, names = CASES[name]
    proto = symbolic(proto, names)
    onnx.save(proto, folder / "model.onnx")
    dims = {dim: DimRange(1, 200) for places in names.values() for dim in places.values()}
    artifact = library.compile(folder / "model.onnx", dims=dims)
    assert artifact.report.cascades and all(c.fused for c in artifact.report.cascades)
    return proto, artifact.load()


def check(proto: ModelProto, model: LoadedModel) -> None:
    for sizes in SIZES:
        at = dict(zip(sorted(model.manifest.dims), sizes, strict=False))
        inputs = random_inputs([spec.at(at) for spec in model.inputs], seed=1)
        outputs, exact, baseline = model(inputs), run_float64(proto, inputs), _baseline(proto, inputs)
        for spec in model.outputs:
            result = compare(outputs[spec.name], exact[spec.name], baseline.get(spec.name), spec.dtype)
            assert result.passed, f"{at}: {result}"


def _baseline(proto: ModelProto, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    try:
        return run_onnxruntime(proto, inputs, 1)
    except VerificationError:
        return {}


@pytest.mark.parametrize("name", ["softmax", "variance", "layer norm", "routing", "decoding", "flattened keys"])
def test_one_artifact_for_all_sizes(name: str, tmp_path: Path) -> None:
    check(*compiled(name, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["logsumexp", "inertia", "cross attention", "boolean mask", "additive mask", "operator"]
)
def test_more_artifacts_for_all_sizes(name: str, tmp_path: Path) -> None:
    check(*compiled(name, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama", "minilm_realweights"])
def test_exported_models_at_several_lengths(corpus: Path, name: str, tmp_path: Path) -> None:
    path = corpus / "exported" / f"{name}__dyn18.onnx"
    artifact = library.compile(path, output=tmp_path / "out", dims={"batch": DimRange(1, 4)})
    assert all(c.fused for c in artifact.report.cascades)
    proto, model = load_model(path).proto, artifact.load()
    for batch, length in ((1, 1), (2, 7), (1, 31), (3, 64), (1, 65), (4, 100)):
        feeds = random_inputs([spec.at({"batch": batch, "seq": length}) for spec in model.inputs], seed=length)
        result = compare(
            model(feeds)["out"], run_float64(proto, feeds)["out"], _baseline(proto, feeds)["out"], "float32"
        )
        assert result.passed, f"batch {batch}, length {length}: {result}"
