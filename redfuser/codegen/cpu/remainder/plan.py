"""What a lowered PrimFunc computes, as steps that there is code for. No TVM."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from redfuser.cascade.graph import Definition
from redfuser.cascade.reading.tir import Fragment
from redfuser.codegen.cpu.remainder.flat import flat
from redfuser.codegen.cpu.remainder.groups import Group, make_groups
from redfuser.codegen.cpu.remainder.inlining import inline
from redfuser.codegen.cpu.remainder.products.channels import ChannelSums, recognise_channels
from redfuser.codegen.cpu.remainder.products.contraction import Contraction, recognise
from redfuser.expr import Tensor, loads
from redfuser.extents import most

#: Fewer columns than this are not worth a register tile; so few rows don't repay reading across memory.
MIN_COLUMNS, MIN_ROWS = 4, 4


@dataclass(frozen=True)
class Plan:
    """Steps of one PrimFunc, one after another.

    Args:
        parameters: inputs, then outputs.
        groups: computed first, each row by row.
        product: the matrix product at the end, if there is one …
        channels: … or sums channel by channel …
        after: … which groups follow.
    """

    parameters: tuple[Tensor, ...]
    groups: tuple[Group, ...]
    product: Contraction | None = None
    channels: ChannelSums | None = None
    after: tuple[Group, ...] = ()

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """Tensors that live in memory only between steps."""
        groups = (*self.groups, *self.after)
        stored = [d.tensor for group in groups for d in group.definitions if d.tensor in group.stored]
        stored += [self.channels.target] if self.channels else []
        given = {*self.parameters, *map(flat, self.parameters)}
        return tuple(tensor for tensor in dict.fromkeys(stored) if tensor not in given)

    @property
    def kind(self) -> str:
        """``product``, ``reduction`` or ``elementwise``."""
        if self.product is not None or self.channels is not None:
            return "product"
        reduces = any(d.is_reduction for group in self.groups for d in group.definitions)
        return "reduction" if reduces else "elementwise"

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.groups, *filter(None, (self.product, self.channels)), *self.after)))


def make_plan(fragment: Fragment, constants: Collection[Tensor], weights: Collection[Tensor] = ()) -> Plan:
    """Choose the steps.

    Args:
        constants: inputs whose contents are known now.
        weights: those of numbers of 8 bits, where there is code for sums of their products channel by channel.
    """
    definitions = inline(fragment)
    outputs = frozenset(fragment.parameters)
    channels = _channels(definitions, weights)
    if channels is not None:
        before, sums, rest = channels
        parts = (sums.image, sums.epilogue, *(d.body for d in rest))
        read = {node.tensor.name for part in parts for node in loads(part)}
        wanted = outputs | {d.tensor for d in before if d.tensor.name in read}
        groups, after = (make_groups(some, wanted) if some else () for some in (before, rest))
        return Plan(fragment.parameters, groups, None, sums, after)
    found = _product(definitions, constants)
    if found is None:
        return Plan(fragment.parameters, make_groups(definitions, outputs))
    before, product = found
    read = {node.tensor.name for part in (product.left, product.right, product.epilogue) for node in loads(part)}
    wanted = outputs | {d.tensor for d in before if d.tensor.name in read}
    return Plan(fragment.parameters, make_groups(before, wanted) if before else (), product)


def _product(
    definitions: tuple[Definition, ...], constants: Collection[Tensor]
) -> tuple[tuple[Definition, ...], Contraction] | None:
    """The matrix product at the end, and what comes before it."""
    for place, definition in enumerate(definitions):
        if definition.is_reduction and len(definitions) - place <= 2:
            product = recognise(definition, definitions[-1])
            if product is not None and _worthwhile(product, constants):
                return definitions[:place], product
    return None


def _channels(
    definitions: tuple[Definition, ...], weights: Collection[Tensor]
) -> tuple[tuple[Definition, ...], ChannelSums, tuple[Definition, ...]] | None:
    """Sums channel by channel, what comes before them, and what comes after that isn't done as they are stored."""
    names = {tensor.name for tensor in weights}
    for place, definition in enumerate(definitions):
        for last in (definitions[-1], definition) if len(definitions) - place <= 2 else (definition,):
            sums = recognise_channels(definition, last) if definition.is_reduction else None
            if sums is not None and sums.weight.tensor.name in names:
                return definitions[:place], sums, () if last is definitions[-1] else definitions[place + 1 :]
    return None


def is_constant(product: Contraction, constants: Collection[Tensor]) -> bool:
    """Whether the right factor is known now."""
    names = {tensor.name for tensor in constants}
    return all(node.tensor.name in names for node in loads(product.right))


def _worthwhile(product: Contraction, constants: Collection[Tensor]) -> bool:
    if product.column.extent < MIN_COLUMNS:
        return False
    return is_constant(product, constants) or product.contiguous or most(product.row.extent) >= MIN_ROWS
