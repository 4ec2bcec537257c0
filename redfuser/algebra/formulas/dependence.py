"""Which parts of a map the element determines, and which earlier results do."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.expr import Axis, Expr, Load, Tensor, walk


@dataclass(frozen=True)
class Kinds:
    """What each sub-expression of a map depends on."""

    varying: frozenset[Expr]
    depending: frozenset[Expr]

    @staticmethod
    def of(expr: Expr, over: Axis, results: frozenset[Tensor]) -> Kinds:
        """Sort the sub-expressions of ``expr`` by whether they vary along ``over`` and use ``results``."""
        varying: set[Expr] = set()
        depending: set[Expr] = set()
        for node in walk(expr):
            if node == over or any(child in varying for child in node.children):
                varying.add(node)
            result = isinstance(node, Load) and node.tensor in results
            if result or any(child in depending for child in node.children):
                depending.add(node)
        return Kinds(frozenset(varying), frozenset(depending))

    def mixed(self, node: Expr) -> bool:
        """Whether both the element and earlier results determine ``node``."""
        return node in self.varying and node in self.depending
