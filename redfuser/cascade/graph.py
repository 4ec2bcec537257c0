"""The model as pure definitions: every tensor as a function of other tensors. No TVM.

This is the lowered graph in the shared vocabulary: one :class:`Definition` for each TIR block. What
can't be read as such (a sort, a library call) is simply absent: its result counts as an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from redfuser.expr import Axis, Expr, Tensor, axes_of, loads


@dataclass(frozen=True)
class Definition:
    """``tensor[axes] = body``, or ``⊕ over reduced of body`` where a combiner is given.

    Args:
        tensor: what is defined.
        axes: one for each dimension of ``tensor``, in order.
        reduced: axes folded away; empty for an element-wise definition.
        combiner: a key of ``cascade.model.IDENTITIES``; empty for an element-wise definition.
        body: one element.
        binding: the Relax binding the block belongs to.
        rank: of a list, the last of ``axes``: the place in it.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    combiner: str
    body: Expr
    binding: str
    rank: Axis | None = None

    @property
    def is_reduction(self) -> bool:
        """Whether this folds an axis."""
        return bool(self.combiner)

    def verify(self) -> None:
        """Check ranks and free axes.

        Raises:
            AssertionError: names the tensor.
        """
        assert self.tensor.shape == tuple(a.extent for a in self.axes), f"{self.tensor.name}: axes don't span it"
        loose = axes_of(self.body) - set(self.axes) - set(self.reduced)
        assert not loose, f"{self.tensor.name}: body uses {[a.name for a in loose]}"
        assert bool(self.reduced) <= bool(self.combiner), f"{self.tensor.name}: folds without a combiner"

    def __str__(self) -> str:
        where = ", ".join(a.name for a in self.axes)
        fold = (
            f"{self.combiner} over {', '.join(f'{a.name}<{a.extent}' for a in self.reduced)} of "
            if self.combiner
            else ""
        )
        return f"{self.tensor.name}[{where}] = {fold}{self.body}"


@dataclass(frozen=True)
class Graph:
    """All definitions of a model, in an order in which each comes after those it loads.

    Args:
        definitions: by tensor name.
        stored: names of tensors the module keeps in memory as they stand (bindings, inputs, constants);
            others are intermediates inside one lowered operator.
        constants: names of the stored tensors that are known now (weights).
        outputs: names of tensors the model returns, or that something opaque reads.
        provenance: binding -> names of the ONNX nodes it came from.
        inputs_of: binding -> tensors it reads, for every binding, opaque ones included.
    """

    definitions: Mapping[str, Definition]
    stored: frozenset[str]
    constants: frozenset[str]
    outputs: frozenset[str]
    provenance: Mapping[str, tuple[str, ...]]
    inputs_of: Mapping[str, tuple[str, ...]]

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Name of a definition -> names of the tensors it loads."""
        return {
            name: tuple(dict.fromkeys(node.tensor.name for node in loads(definition.body)))
            for name, definition in self.definitions.items()
        }

    @cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Tensor name -> names of the definitions that load it."""
        found: dict[str, list[str]] = {}
        for name, sources in self.sources.items():
            for tensor in sources:
                found.setdefault(tensor, []).append(name)
        return {name: tuple(users) for name, users in found.items()}

    def verify(self) -> None:
        """Check every definition and their order.

        Raises:
            AssertionError: names the tensor.
        """
        seen: set[str] = set()
        for name, definition in self.definitions.items():
            definition.verify()
            for node in loads(definition.body):
                later = node.tensor.name in self.definitions and node.tensor.name not in seen
                assert not later, f"{name} loads {node.tensor.name} before it is defined"
            seen.add(name)

    def __str__(self) -> str:
        return "\n".join(map(str, self.definitions.values()))
