"""Symbolic dimensions from the file to the call: one artifact for every size in its range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import redfuser as library
from models.tiny_bert import BertShape, tiny_bert
from redfuser.accuracy import compare
from redfuser.api import Artifact
from redfuser.artifact.load import LoadedModel
from redfuser.errors import UsageError
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.samples import random_inputs, sample_sizes
from redfuser.signature import DimRange, DimSum

#: One, primes, tiles and their neighbours, the upper bound.
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 96]

BERT = BertShape(length=96, symbolic=True)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    onnx.save(tiny_bert(BERT), folder / "bert.onnx")
    return folder / "bert.onnx"


@pytest.fixture(scope="module")
def artifact(bert: Path) -> Artifact:
    return library.compile(bert, dims={"batch": DimRange(1, 5)}, force=True)


@pytest.fixture(scope="module")
def model(artifact: Artifact) -> LoadedModel:
    return artifact.load()


def feeds(model: LoadedModel, **sizes: int) -> dict[str, np.ndarray]:
    return random_inputs([spec.at(sizes) for spec in model.inputs], seed=sum(sizes.values()))


def agree(proto: onnx.ModelProto, model: LoadedModel, inputs: Mapping[str, np.ndarray]) -> Iterator[str]:
    outputs, exact, baseline = model(inputs), run_float64(proto, inputs), run_onnxruntime(proto, inputs, 2)
    for spec in model.outputs:
        result = compare(outputs[spec.name], exact[spec.name], baseline[spec.name], spec.dtype)
        if not result.passed:
            yield f"{spec.name}: {result}"


def test_everything_is_fused_as_in_the_static_model(artifact: Artifact, tmp_path: Path) -> None:
    onnx.save(tiny_bert(replace(BERT, symbolic=False)), tmp_path / "static.onnx")
    static = library.analyze(tmp_path / "static.onnx").cascades
    dynamic = artifact.report.cascades
    assert [(c.kind, c.verdict) for c in dynamic] == [(c.kind, c.verdict) for c in static]


def test_the_manifest_names_the_ranges(model: LoadedModel) -> None:
    assert model.inputs[0].shape == ("batch", "length")
    assert model.manifest.dims == {"batch": DimRange(1, 5), "length": DimRange(1, 96)}


@pytest.mark.parametrize("length", LENGTHS)
def test_any_length_in_range(bert: Path, model: LoadedModel, length: int) -> None:
    inputs = feeds(model, batch=1 + length % 5, length=length)
    assert not list(agree(onnx.load(bert), model, inputs))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 6, "length": 4}, "dimension 'batch' of input 'input_ids' is 6; the module takes 1 to 5"),
        ({"batch": 1, "length": 97}, "dimension 'length' of input 'input_ids' is 97; the module takes 1 to 96"),
        ({"batch": 1, "length": 0}, "'length' of input 'input_ids' is 0"),
    ],
)
def test_a_size_out_of_range_is_named(model: LoadedModel, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        model(feeds(model, **sizes))


def test_inputs_must_agree_on_a_dimension(model: LoadedModel) -> None:
    inputs = feeds(model, batch=2, length=4)
    with pytest.raises(UsageError, match="dimension 'length' is 3 in input 'attention_mask' and 4 in another"):
        model({**inputs, "attention_mask": inputs["attention_mask"][:, :3]})


def test_sizes_to_try() -> None:
    assert sample_sizes({}) == ({},)
    tried = sample_sizes({"batch": DimRange(1, 2), "length": DimRange(2, 96)})
    assert [sizes["length"] for sizes in tried] == [2, 7, 16, 31, 64, 65, 96]
    assert {sizes["batch"] for sizes in tried} == {1, 2}
    assert sample_sizes({"n": DimRange(4, 65536)})[-1] == {"n": 129}


def test_sizes_of_prompts_and_steps_to_try() -> None:
    dims = {"batch": DimRange(1, 9), "new": DimRange(1, 9), "all": DimRange(1, 9), "past": DimRange(0, 8)}
    tried = sample_sizes(dims, {"all": DimSum({"past": 1, "new": 1})})
    assert all(sizes["all"] == sizes["past"] + sizes["new"] for sizes in tried)
    assert all(sizes["past"] == 0 or sizes["new"] == 1 for sizes in tried)
    assert {(sizes["new"], sizes["past"]) for sizes in tried} == {(1, 0), (7, 0), (9, 0), (1, 7), (1, 8)}


@pytest.mark.parametrize("shape", [["n", 12], [5, "n"]])
def test_hardmax_of_an_open_dimension(shape: list[int | str], tmp_path: Path) -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"], axis=-1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    module = library.compile(path, output=tmp_path / "out").load()
    for size in (1, 7):
        feed = np.full([size if n == "n" else n for n in shape], -np.inf, np.float32)
        assert (module({"x": feed})["y"].argmax(-1) == 0).all() and (module({"x": feed})["y"].sum(-1) == 1).all()
