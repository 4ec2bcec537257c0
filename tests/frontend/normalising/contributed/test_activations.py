"""Activations of com.microsoft."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.normalising.contributed.checking import agree, contributed, normal, refused

X, ROW = normal(2, 3, 8), normal(8)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("BiasGelu", {"x": X, "b": ROW}, {}),
        ("FastGelu", {"x": X, "b": ROW}, {}),
        ("FastGelu", {"x": X}, {}),
        ("Gelu", {"x": X}, {}),
        ("QuickGelu", {"x": X}, {}),
        ("QuickGelu", {"x": X}, {"alpha": 1.0}),
    ],
)
def test_every_form(operator: str, inputs: dict[str, np.ndarray], attributes: dict[str, object]) -> None:
    agree(*contributed(operator, inputs, ["y"], **attributes))


def test_an_attribute_of_another_version_is_refused() -> None:
    refused(*contributed("QuickGelu", {"x": X}, ["y"], beta=2.0), "the attribute beta")
