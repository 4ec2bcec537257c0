"""Puts off what turns channels-last results to channels-first: until something needs that, or turns them back.

A convolution of bytes computes with channels last. What follows it element by element doesn't care about the order, and
the next convolution turns it again: of a whole network one transposition is left at either end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from redfuser.frontend.normalising.dequantised import types_of
from redfuser.frontend.normalising.names import FreshNames, rename_reads
from redfuser.frontend.normalising.windows import dims_of
from redfuser.frontend.reading.walk import names_read

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TypeProto

#: Functions of each element, of as many operands as there are.
_ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "Cast", "Clip", "DequantizeLinear", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish"),
        "DynamicQuantizeLinear",  # its scale and zero point are one for all elements
        *("LeakyRelu", "Max", "Min", "Mul", "Neg", "QuantizeLinear", "Relu", "Sigmoid", "Softplus", "Sub", "Tanh"),
    ]
)


def sink_transpositions(graph: GraphProto, results: Collection[str]) -> None:
    """Rewrite a graph in place. What is written has no types yet.

    Args:
        results: names of results of convolutions, each written by a Transpose that puts channels second.
    """
    _Sinker(graph, results).run()


class _Sinker:
    """
    Attributes:
        ranks: of the values that there are with channels last.
        last: value -> its name with channels last.
        waiting: those that have no other yet.
        dequantised: value -> what dequantises it: in either order, and once it is needed.
        written: those of them that are dequantised with channels second.
    """

    def __init__(self, graph: GraphProto, results: Collection[str]) -> None:
        self.graph = graph
        self.results = set(results)
        self.outputs = [output.name for output in graph.output]
        self.fresh = FreshNames(graph)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.single = {name for name, tensor in self.constants.items() if list(tensor.dims) in ([], [1])}
        self.single |= {name for name, kind in types_of(graph).items() if _is_number(kind)}
        self.last: dict[str, str] = {}
        self.ranks: dict[str, int] = {}
        self.waiting: set[str] = set()
        self.dequantised: dict[str, NodeProto] = {}
        self.written: set[str] = set()
        self.same: dict[str, str] = {}
        self.nodes: list[NodeProto] = []

    def run(self) -> None:
        for node in list(self.graph.node):
            rename_reads(node, self.same)
            if node.op_type == "Transpose" and self._turns(node):
                continue
            if node.op_type == "DequantizeLinear" and self._is_single(node):
                self.dequantised[node.output[0]] = node
                continue
            if node.op_type in (*_ELEMENTWISE, "Concat") and self._passes(node):
                self._pass(node)
                continue
            for name in names_read(node):
                self._need(name)
            self.nodes.append(node)
        for name in self.outputs:
            self._need(name)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def _rank(self, name: str) -> int | None:
        """Of a value that there is with channels last, or that can be dequantised so; None of others."""
        bytes_ = self.dequantised.get(name)
        return self.ranks.get(name) if bytes_ is None else self._rank(bytes_.input[0])

    def _is_single(self, node: NodeProto) -> bool:
        """Whether all that a node reads but its first input is one number each."""
        return all(name in self.single for name in list(node.input)[1:] if name)

    def _turns(self, node: NodeProto) -> bool:
        """Whether a transposition need not be done: one to be put off, or one that another undoes."""
        order = list(node.attribute[0].ints) if node.attribute else []
        (source,), (target,) = node.input, node.output
        if target in self.results:
            self._put_off(target, source, len(order))
            return True
        if order != _to_last(len(order)):
            return False
        if self._rank(source) and target not in self.outputs:
            self.same[target] = self._last(source)
            return True
        self._need(source)
        self.last[source], self.ranks[source] = target, len(order)
        return False

    def _put_off(self, name: str, last: str, rank: int) -> None:
        self.last[name], self.ranks[name] = last, rank
        self.waiting.add(name)

    def _passes(self, node: NodeProto) -> bool:
        """Whether an operator may compute with channels last: all it reads has that order, is constant or a number."""
        ranks = {self._rank(name) for name in node.input if name and name not in self.single | self.constants.keys()}
        if len(ranks) != 1 or None in ranks:
            return False
        rank = next(filter(None, ranks))
        constants = [self.constants[name] for name in node.input if name in self.constants and name not in self.single]
        if node.op_type == "Concat":
            return node.attribute[0].i % rank == 1 and not constants
        # Where there is an axis, a vector is of its entries.
        by_axis = node.op_type in ("DequantizeLinear", "QuantizeLinear") and constants
        return not by_axis and all(len(tensor.dims) <= rank for tensor in constants)

    def _pass(self, node: NodeProto) -> None:
        target, copy = node.output[0], _copy(node)
        rank = next(filter(None, map(self._rank, node.input)))
        for place, name in enumerate(node.input):
            if name and name not in self.single:
                copy.input[place] = self._turned(name, rank) if name in self.constants else self._last(name)
        if node.op_type == "Concat":
            copy.attribute[0].i = rank - 1
        copy.output[0] = self.fresh.take(f"{target}/last")
        self.nodes.append(copy)
        self._put_off(target, copy.output[0], rank)

    def _turned(self, name: str, rank: int) -> str:
        """A constant beside images of channels first, for those of channels last."""
        from onnx import numpy_helper

        array = numpy_helper.to_array(self.constants[name])
        array = array.reshape([1] * (rank - array.ndim) + list(array.shape)).transpose(_to_last(rank)).copy()
        tensor = numpy_helper.from_array(array, self.fresh.take(f"{name}/last"))
        self.graph.initializer.append(tensor)
        return str(tensor.name)

    def _last(self, name: str) -> str:
        """The name of a value with channels last, dequantised in that order if need be."""
        if name not in self.last:
            copy = _copy(self.dequantised[name])
            copy.input[0] = self._last(copy.input[0])
            copy.output[0] = self.last[name] = self.fresh.take(f"{name}/last")
            copy.name = f"{copy.name}/last"
            self.nodes.append(copy)
        return self.last[name]

    def _need(self, name: str) -> None:
        """Turn what was put off: bytes, where it is dequantised from some."""
        from onnx import helper

        if name in self.dequantised:
            node = self.dequantised[name]
            if name not in self.written:
                self.written.add(name)
                self._need(node.input[0])
                self.nodes.append(node)
        elif name in self.waiting:
            self.waiting.remove(name)
            order = [0, self.ranks[name] - 1, *range(1, self.ranks[name] - 1)]
            node = helper.make_node("Transpose", [self.last[name]], [name], name=f"{name}/first", perm=order)
            self.nodes.append(node)


def _copy(node: NodeProto) -> NodeProto:
    copy = type(node)()
    copy.CopyFrom(node)
    return copy


def _is_number(kind: TypeProto) -> bool:
    return kind.tensor_type.HasField("shape") and dims_of(kind) in ([], [1])


def _to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]
