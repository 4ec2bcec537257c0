"""A model taken apart: what every stage after detection works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redfuser.cascade.canonical import Canonical
from redfuser.cascade.detection import Detection
from redfuser.cascade.graph import Graph
from redfuser.cascade.model import Cascade
from redfuser.frontend import LoweredModel, PreparedModel

if TYPE_CHECKING:
    from redfuser.codegen.excerpt import Excerpt


@dataclass(frozen=True)
class Analysis:
    """A model taken apart: what every later stage works on.

    Args:
        onnx: as read and normalised.
        lowered: as TVM sees it.
        graph: as pure definitions.
        values: Relax expression behind each stored tensor of the graph.
        detection: the cascades found.
        canonical: canonical form of each cascade, by its name.
    """

    onnx: PreparedModel
    lowered: LoweredModel
    graph: Graph
    values: Mapping[str, Any]
    detection: Detection
    canonical: Mapping[str, Canonical]

    def distinct(self) -> dict[Cascade, str]:
        """Each distinct canonical cascade, with the name of the first that has that form."""
        names: dict[Cascade, str] = {}
        for cascade in self.detection.cascades:
            names.setdefault(self.canonical[cascade.name].cascade, cascade.name)
        return names

    def part(self, name: str) -> Excerpt:
        """What computes a cascade, as the model has it."""
        from redfuser.codegen.excerpt import excerpt

        canonical = self.canonical[name]
        given, wanted = ([self.values[n] for n in names] for names in (canonical.inputs, canonical.outputs))
        return excerpt(self.lowered.module, given, wanted)
