"""How far a cascade reaches downstream: what it computes for the rest of the model. No TVM.

Starting from the members, element-wise consumers are absorbed as long as the set stays convex and nothing larger than
a result is computed twice. What is still read from outside then becomes an output, and must be a tensor
that the module keeps in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.expand import Expander
from redfuser.cascade.graph import Graph
from redfuser.extents import most
from redfuser.reason import Reason


@dataclass(frozen=True)
class Frontier:
    """How far a cascade reaches.

    Args:
        outputs: tensors it must write, in graph order.
        inside: every definition it makes, outputs and members included.
    """

    outputs: tuple[str, ...]
    inside: frozenset[str]


class NotSeparable(Exception):
    """``name`` is needed outside but isn't kept in memory; carries the reason."""

    def __init__(self, name: str, reason: Reason) -> None:
        super().__init__(str(reason))
        self.name = name
        self.reason = reason


def find_frontier(
    graph: Graph,
    ancestry: Ancestry,
    members: Sequence[str],
    expander: Expander,
    stop: Collection[str],
) -> Frontier:
    """How far a cascade reaches; nothing in ``stop`` is absorbed.

    Raises:
        NotSeparable: an intermediate that isn't kept in memory is needed by another reduction outside.
    """
    inside = set(members)
    outputs: set[str] = set()
    row = min(most(graph.definitions[member].tensor.size) for member in members)
    pending = [*_between(graph, members, expander), *members]
    inside |= set(pending)
    while pending:
        name = pending.pop(0)
        outside = [c for c in graph.consumers.get(name, ()) if c not in inside]
        if not outside and name not in graph.outputs:
            continue
        absorbed = [c for c in outside if c not in stop and _absorbable(graph, ancestry, members, c)]
        whole = name not in graph.outputs and len(absorbed) == len(outside)
        once = name not in graph.stored or len({_origin(graph, c) for c in outside}) == 1
        if most(graph.definitions[name].tensor.size) <= row or (whole and once):
            inside |= set(absorbed)
            pending += absorbed
            if whole:
                continue
        if name not in graph.stored:
            blocked = [c for c in outside if c not in absorbed]
            raise NotSeparable(name, Reason("not-separable", f"{name} is not kept in memory", (*blocked, name)[0]))
        outputs.add(name)
    order = {name: k for k, name in enumerate(graph.definitions)}
    return Frontier(tuple(sorted(outputs, key=order.__getitem__)), frozenset(inside))


def _origin(graph: Graph, name: str) -> tuple[str, ...]:
    """What a definition was lowered from: several of one ONNX node read a tensor once."""
    binding = graph.definitions[name].binding
    return graph.provenance.get(binding) or (binding,)


def _between(graph: Graph, members: Sequence[str], expander: Expander) -> list[str]:
    """Element-wise definitions that members' maps go through on the way to other members."""
    found: dict[str, None] = {}
    pending = list(members)
    while pending:
        for name in graph.sources[pending.pop()]:
            source = graph.definitions.get(name)
            if source and not source.is_reduction and name not in found and expander.reaches(name):
                found[name] = None
                pending.append(name)
    return list(found)


def _absorbable(graph: Graph, ancestry: Ancestry, members: Sequence[str], candidate: str) -> bool:
    """Element-wise, and no other reduction lies between a member and it."""
    return not graph.definitions[candidate].is_reduction and ancestry.detour([*members], candidate) is None
