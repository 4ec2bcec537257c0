"""Models of operators of com.microsoft."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from redfuser.errors import UnsupportedOperatorError, VerificationError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.normalising.contributed.checking import contributed, normal
from tests.frontend.running import graph_of, loaded, lower_and_run

X = normal(2, 3, 8)
CONSTANTS = {"w": normal(8, 24), "b": normal(24), "g": normal(8)}


def block() -> list[NodeProto]:
    """One layer of an encoder, as ONNX Runtime's optimiser writes it."""
    kinds: list[tuple[str, list[str], dict[str, object]]] = [
        ("Attention", ["x", "w", "b"], {"num_heads": 2}),
        ("SkipLayerNormalization", ["n0", "x", "g"], {"epsilon": 1e-5}),
        ("BiasGelu", ["n1", "g"], {}),
        ("SkipSimplifiedLayerNormalization", ["n2", "n1", "g"], {"epsilon": 1e-5}),
        ("FastGelu", ["n3"], {}),
    ]
    return [
        helper.make_node(kind, names, [f"n{place}"], name=f"at{place}", domain="com.microsoft", **attributes)
        for place, (kind, names, attributes) in enumerate(kinds)
    ]


def test_a_model_of_them_is_compiled() -> None:
    proto = graph_of(block(), {"x": X}, ["n4"], CONSTANTS, domains={"com.microsoft": 1})
    got = lower_and_run(proto, {"x": X})[0]
    np.testing.assert_allclose(got, run_float64(proto, {"x": X})["n4"], rtol=1e-4, atol=1e-5)
    lowered = lower(loaded(proto))
    assert any("LayerNormalization" in name for name in lowered.operators)
    assert all(name.startswith("at") for name in lowered.operators)


def test_sizes_may_stay_open() -> None:
    proto = graph_of(block(), {"x": (1, ["batch", "seq", 8])}, ["n4"], CONSTANTS, domains={"com.microsoft": 1})
    assert lower(loaded(proto)).outputs[0].shape == ("batch", "seq", 8)


def test_other_operators_of_the_domain_are_kept_and_refused_by_name() -> None:
    proto, feeds = contributed("Rfft", {"x": X}, ["y"])
    with pytest.raises(UnsupportedOperatorError, match=r"operator Rfft of domain 'com\.microsoft'"):
        lower(loaded(proto))
    with pytest.raises(VerificationError, match="Rfft"):
        run_float64(proto, feeds)
