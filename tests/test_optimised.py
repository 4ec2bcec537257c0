"""Models that ONNX Runtime's tools wrote: fused as the models they were made of, and right."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

import redfuser
from models.contributed_decoder import PLACES, decoder
from redfuser.api import Artifact
from redfuser.errors import UnsupportedOperatorError
from redfuser.oracle.run import run_onnxruntime
from redfuser.progress import Silent
from redfuser.samples import random_inputs
from redfuser.signature import DimRange
from redfuser.verification import compare_with_oracle
from redfuser_cli.main import main

#: exported models, and an operator that ONNX Runtime's own optimiser writes into each
OPTIMISED = {
    "bert__dyn18": "FusedMatMul",
    "bert__ts14": "Gelu",
    "clip__eager18": "QuickGelu",
    "gpt2__sdpa18": "FastGelu",
    "llama__sdpa18": "QuickGelu",
    "llama__ts14": "SimplifiedLayerNormalization",
    "qwen2_moe__eager18": "FusedGemm",
    "vit__eager18": "SkipLayerNormalization",
}

#: exported models, the kind they are for the optimiser of onnxruntime.transformers, their heads where it must be told,
#: and an operator that it writes
REWRITTEN = [
    ("bert__dyn18", "bert", 0, "BiasGelu"),
    ("bert__ts14", "bert", 4, "Attention"),
    ("clip__eager18", "clip", 4, "Attention"),
    ("clip__eager18", "mmdit", 4, "MultiHeadAttention"),
    ("gpt2__eager18", "gpt2", 0, "FastGelu"),
    ("llama__ts14", "gpt2", 0, "SkipSimplifiedLayerNormalization"),
    ("qwen2_moe__eager18", "gpt2", 0, "SkipSimplifiedLayerNormalization"),
    ("t5__sdpa18", "t5", 0, "SimplifiedLayerNormalization"),
    ("vit__eager18", "vit", 0, "SkipLayerNormalization"),
]

#: Of all of these.
WIDTH = 64


def by_session(model: Path, folder: Path, level: str = "ORT_ENABLE_EXTENDED") -> Path:
    """As ONNX Runtime optimises it offline."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options, path = onnxruntime.SessionOptions(), folder / "optimised.onnx"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return path


def by_transformers(model: Path, folder: Path, kind: str, heads: int) -> Path:
    """As the optimiser in onnxruntime.transformers rewrites it."""
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    path = folder / "optimised.onnx"
    sizes = {"num_heads": heads, "hidden_size": WIDTH if heads else 0}
    optimizer.optimize_model(str(model), model_type=kind, opt_level=0, **sizes).save_model_to_file(str(path))
    return path


def kinds(model: Path) -> Counter[tuple[str, str]]:
    """How many cascades of each kind have each verdict."""
    return Counter((entry.kind, entry.verdict) for entry in redfuser.analyze(model).cascades)


def contributed(model: Path) -> set[str]:
    """Operators of ONNX Runtime's own."""
    proto = onnx.load(model)
    return {n.op_type for n in proto.graph.node if n.domain == "com.microsoft" or n.op_type.startswith("Simplified")}


def test_a_model_that_onnx_runtime_optimised(tmp_path: Path) -> None:
    model = Path(__file__).parent.parent / "models" / "tiny_bert.onnx"
    optimised = by_session(model, tmp_path)
    assert "FusedMatMul" in contributed(optimised)
    assert kinds(optimised) == kinds(model)


def test_layouts_of_one_machine_are_refused_with_the_way_out(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="node", pads=[1, 1, 1, 1])
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 16, 8, 8]) for name in "xy"]
    weight = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w")
    graph = onnx.helper.make_graph([node], "convolution", info[:1], info[1:], [weight])
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10), path)
    optimised = by_session(path, tmp_path, "ORT_ENABLE_ALL")
    assert {n.domain for n in onnx.load(optimised).graph.node} >= {"com.microsoft.nchwc"}
    with pytest.raises(UnsupportedOperatorError, match=r"of domain 'com\.microsoft\.nchwc'") as refusal:
        redfuser.analyze(optimised)
    assert "ORT_ENABLE_EXTENDED" in refusal.value.hint


def check(optimised: Path, model: Path, operator: str, folder: Path) -> None:
    """It has the operator, the cascades of the model it was made of, and computes what it says."""
    assert operator in contributed(optimised)
    assert kinds(optimised) == kinds(model)
    feeds = dict(np.load(model.with_suffix(".npz")))
    shapes = {key: array.shape for key, array in feeds.items()}
    artifact = redfuser.compile(optimised, output=folder / "out", shapes=shapes)
    for output in compare_with_oracle(artifact.path, optimised, [({}, feeds)], None, Silent()):
        assert output.accuracy.passed, str(output)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "operator"), OPTIMISED.items())
def test_an_exported_model_optimised(name: str, operator: str, corpus: Path, tmp_path: Path) -> None:
    model = corpus / "exported" / f"{name}.onnx"
    check(by_session(model, tmp_path), model, operator, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "heads", "operator"), REWRITTEN)
def test_an_exported_model_rewritten(
    name: str, kind: str, heads: int, operator: str, corpus: Path, tmp_path: Path
) -> None:
    model = corpus / "exported" / f"{name}.onnx"
    check(by_transformers(model, tmp_path, kind, heads), model, operator, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        {"batch": 2, "new": 1, "past": 31, "all": 32},
        {"batch": 2, "new": 1, "past": 40, "all": 32},
        {"batch": 1, "new": 4, "past": 28, "all": 32},
        {"batch": 2, "new": 32, "past": 32, "all": 32},
    ],
    ids=["step", "step in a buffer", "steps", "prompt"],
)
def test_a_decoder_with_a_past(sizes: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    artifact = redfuser.compile(path, output=tmp_path / "out", dims=sizes)
    assert artifact.report.kinds(fused_only=True)["attention"] == 2
    feeds = random_inputs(artifact.manifest.inputs, 1)
    feeds["attention_mask"] = np.ones_like(feeds["attention_mask"])
    if sizes["new"] == 1:
        feeds["attention_mask"][1, 20:] = 0  # a shorter row
    for output in compare_with_oracle(artifact.path, path, [({}, feeds)], None, Silent()):
        assert output.accuracy.passed, str(output)


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Artifact]:
    """A decoder with all its sizes open."""
    folder = tmp_path_factory.mktemp("decoder")
    path = folder / "decoder.onnx"
    path.write_bytes(decoder().SerializeToString())
    return path, redfuser.compile(path, output=folder / "out")


@pytest.mark.slow
def test_one_artifact_generates(generator: tuple[Path, Artifact]) -> None:
    """A prompt of rows of two lengths, then word after word; what ONNX Runtime makes of the same, each step."""
    path, artifact = generator
    assert artifact.report.kinds(fused_only=True)["attention"] == 2
    assert artifact.manifest.dims["past"] == DimRange(0, PLACES - 1)
    model, proto = artifact.load(), onnx.load(path)
    states = [spec for spec in model.inputs if spec.name.startswith("past")]
    past = {spec.name: np.zeros((2, spec.shape[1], 0, spec.shape[3]), np.float32) for spec in states}
    words, mask = np.random.default_rng(0).integers(0, 50, (2, 37)), np.ones((2, 37), np.int64)
    mask[1, 30:] = 0
    for step in range(6):
        feeds = {"input_ids": words, "attention_mask": mask, **past}
        ours, theirs = model(feeds), run_onnxruntime(proto, feeds, 2)
        last = [36, 29] if step == 0 else [0, 0]
        logits = [results["logits"][[0, 1], last] for results in (ours, theirs)]
        np.testing.assert_allclose(*logits, rtol=1e-4, atol=1e-5)
        for name, row in product(past, range(2)):  # what lies behind the end of a row of a prompt says nothing
            states = [results[name.replace("past", "present")] for results in (ours, theirs)]
            np.testing.assert_allclose(*(state[row, :, : mask[row].sum()] for state in states), atol=1e-5)
        past = {name: ours[name.replace("past", "present")] for name in past}
        words, counts = logits[0].argmax(-1)[:, None], mask.sum(1) + 1
        mask = (np.arange(38 + step) < counts[:, None]).astype(np.int64)


@pytest.mark.slow
def test_that_artifact_on_the_command_line(
    generator: tuple[Path, Artifact], capsys: pytest.CaptureFixture[str]
) -> None:
    path, artifact = generator
    assert main(["verify", str(artifact.path), "--model", str(path), "-q"]) == 0
    assert "batch=3, new=1, all=17, past=16" in capsys.readouterr().out
    assert main(["run", str(artifact.path), "--dim", "past=0", "--dim", "new=3", "--dim", "batch=2", "-q"]) == 0
    assert "present.0.key: float32[2, 2, 3, 16]" in capsys.readouterr().out
    assert main(["run", str(artifact.path), "--dim", "all=9", "--dim", "new=2", "-q"]) == 0
    assert "present.0.key: float32[1, 2, 9, 16]" in capsys.readouterr().out
    assert main(["run", str(artifact.path), "--dim", "all=9", "--dim", "new=2", "--dim", "past=4", "-q"]) == 2
    assert "dimension 'all' is 9, but has to be new + past: 6" in capsys.readouterr().err
