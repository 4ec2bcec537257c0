"""Values that tests of several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest

from redfuser.reason import Reason
from redfuser.report.value import (
    CascadeEntry,
    DerivationEntry,
    FusionReport,
    ModelInfo,
    NumericError,
    ProofEntry,
    RecurrenceEntry,
    ReductionEntry,
    StateEntry,
    TargetInfo,
    Time,
    Traffic,
)
from redfuser.signature import TensorSpec


@pytest.fixture
def corpus() -> Path:
    """The folder of real and exported models that lies beside the repository; skips without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of models isn't here")
    return folder


@pytest.fixture
def fused_entry() -> CascadeEntry:
    """A softmax that was fused."""
    return CascadeEntry(
        id="cascade_0",
        kind="softmax",
        verdict="fused",
        reason=None,
        onnx_nodes=("/layer.0/Softmax",),
        reductions=(
            ReductionEntry("m", "max", ("row<4",), "k<512", "x[row, k]"),
            ReductionEntry("t", "sum", ("row<4",), "k<512", "exp((x[row, k] - m[row]))"),
        ),
        derivation=DerivationEntry(
            form="rank-1",
            recurrences=(
                RecurrenceEntry("m", "mul", (StateEntry("m.0", "max", "-inf", "x[row, k]"),), "max(m, -1e30)", "m.0"),
                RecurrenceEntry(
                    "t",
                    "mul",
                    (StateEntry("t.0", "sum", "0", "exp((x[row, k] - m.base))", ("exp((m.previous - m.base))",)),),
                    None,
                    "t.0",
                ),
            ),
            proofs=(ProofEntry("t: F = G * H", "pivot"), ProofEntry("t: merge", "float64 witnesses", 2.2e-16)),
        ),
        exactness="exact",
        strategy="single-segment",
        schedule={"rows": 4, "tile": 64},
        traffic=Traffic(8192, 16, 24576, 16416, 10240),
        time=Time(12.5, "modelled"),
        error=NumericError(1.25e-7, 1.5e-7, 4.5e-7, True),
    )


@pytest.fixture
def missed_entry() -> CascadeEntry:
    """A candidate that was not fused."""
    return CascadeEntry(
        id="cascade_1",
        kind="other",
        verdict="unfused",
        reason=Reason("not-finite-rank", "the map mixes the element and an earlier result", "tanh((x[k] - m))"),
        onnx_nodes=("evil\x1b[2J<script>|`name`\u202e",),
        reductions=(ReductionEntry("s", "sum", (), "k<8", "tanh((x[k] - m))"),),
    )


@pytest.fixture
def report(fused_entry: CascadeEntry, missed_entry: CascadeEntry) -> FusionReport:
    """One fused and one missed cascade."""
    return FusionReport(
        model=ModelInfo("tiny.onnx", "ab" * 32, 18, 42, (TensorSpec("x", (4, 512), "float32"),)),
        target=TargetInfo("cpu-avx2", "cpu", "x86-64-v3", (), 4),
        cascades=(fused_entry, missed_entry),
    )
