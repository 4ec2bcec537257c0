"""That an element which a condition hides contributes nothing, and what must hold at run time for that.

A mask of -inf makes each element the identity of its combiner, unless something it meets is NaN or +inf. A mask of
large finite numbers (-3.4e38, -65504, -1e4) doesn't, but where a row sees an element at all, its maximum exceeds every
hidden score by so much that their exponentials are exactly 0, as long as the scores are bounded: they are sums of
products, of which no more is asked than norms of the operands (Cauchy and Schwarz).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, load, loads, substitute
from redfuser.tile.monoid import identity
from redfuser.tile.strategies.skipping.intervals import LARGEST, Interval, interval_of

#: What is asked of values, and of sums of products, so that nothing overflows float32.
MODERATE, MODERATE_SUM = 2.0**40, 2.0**80
#: Bounds of scores to try where a finite mask must exceed them, the loosest first.
BOUNDS = tuple(2.0**power for power in (80, 60, 40, *range(36, -2, -2)))
#: Not NaN, nor -inf: what a base point is while the result it stands for isn't NaN.
BASE = Interval(-LARGEST["float32"], math.inf)

Elements = list[tuple[str, Expr]]
Known = dict[Load, Interval | None]


@dataclass(frozen=True)
class Product:
    """``Σ over left · right``."""

    left: Expr
    right: Expr
    over: Axis


@dataclass(frozen=True)
class Needs:
    """What must hold at run time.

    Args:
        values: the range that each loaded value must lie in.
        products: the most that each sum of products may be, either way.
        visible: whether each row must see something: the mask is finite.
    """

    values: Mapping[Load, Interval] = field(default_factory=dict)
    products: Mapping[Product, float] = field(default_factory=dict)
    visible: bool = False

    def __bool__(self) -> bool:
        return bool(self.values or self.products)

    def also(self, other: Needs) -> Needs:
        """Both."""
        values = {**self.values, **other.values}
        for node in self.values.keys() & other.values.keys():
            one, two = self.values[node], other.values[node]
            values[node] = Interval(max(one.low, two.low), min(one.high, two.high))
        products = {**self.products, **other.products}
        for product in self.products.keys() & other.products.keys():
            products[product] = min(self.products[product], other.products[product])
        return Needs(values, products, self.visible or other.visible)


def product_of(producer: Reduction) -> Product | None:
    """The product that a producer sums; None if it is none."""
    value = producer.map
    if producer.combiner != "sum" or not isinstance(value, Op) or value.name != "mul":
        return None
    left, right = value.args
    return Product(left, right, producer.over) if producer.over in axes_of(left) & axes_of(right) else None


@dataclass(frozen=True)
class Proof:
    """Of one condition.

    Args:
        elements: of every component of the states, with its combiner.
        hidden, seen: the condition's value for an element that is hidden, and for one that isn't.
    """

    cascade: Cascade
    elements: Elements
    hidden: Mapping[Expr, Expr]
    seen: Mapping[Expr, Expr]

    def needs(self) -> Needs | None:
        """The weakest found under which it holds; None if it doesn't."""
        for bound in (None, MODERATE_SUM):
            if self._holds(self._all(MODERATE), bound, finite=False):
                return self._least(MODERATE, bound, finite=False)
        for bound in BOUNDS:
            if self._holds(self._all(min(bound, MODERATE)), bound, finite=True):
                # Half of it leaves room for the rounding of whatever is computed from the sums.
                return self._least(min(bound / 2, MODERATE), bound / 2, finite=True)
        return None

    def _least(self, size: float, bound: float | None, finite: bool) -> Needs:
        """What is asked of each value alone, the least first: nothing, not NaN nor +inf, not large."""
        asked: dict[Load, Interval | None] = dict(self._all(size))
        for node in asked:
            choices = (None, *(_range(node, most) for most in (MODERATE, size) for _range in (_at_most, _within)))
            asked[node] = next(r for r in choices if self._holds({**asked, node: r}, bound, finite))
        products = {product: bound for _, product in self._products()} if bound is not None else {}
        return Needs({node: r for node, r in asked.items() if r is not None}, products, finite)

    def _all(self, size: float) -> dict[Load, Interval]:
        """Everything asked of floating-point inputs that elements read otherwise than through products."""
        products = {producer for producer, _ in self._products()}
        maps = [element for _, element in self.elements]
        maps += [producer.map for producer in self.cascade.producers if producer not in products]
        inputs = set(self.cascade.inputs)
        found = [node for expr in maps for node in loads(expr) if node.tensor in inputs and "float" in node.dtype]
        return {node: _within(node, size) for node in found}

    def _products(self) -> Iterator[tuple[Reduction, Product]]:
        for producer in self.cascade.producers:
            product = product_of(producer)
            if product is not None:
                yield producer, product

    def _holds(self, asked: Mapping[Load, Interval | None], bound: float | None, finite: bool) -> bool:
        known: Known = dict(asked)
        sums = {producer for producer, _ in self._products()}
        for producer in self.cascade.producers:
            total = None if bound is None else Interval(-bound, bound)
            known[load(producer.result, *producer.axes)] = total if producer in sums else self._sum(producer, known)
        lowest: dict[Expr, float] = {}
        for reduction in self.cascade.reductions:
            if reduction.combiner == "max":
                base = BASE
                if finite:
                    visible = interval_of(substitute(reduction.map, self.seen), known.get)
                    if visible is None or visible.low < BASE.low:
                        return False
                    base, lowest[reduction.map] = Interval(visible.low, math.inf), visible.low
                tensor = Tensor(f"{reduction.result.name}.base", reduction.result.shape, reduction.result.dtype)
                known[load(tensor, *reduction.axes)] = base
        return all(self._absorbed(combiner, element, known, lowest) for combiner, element in self.elements)

    def _sum(self, producer: Reduction, known: Known) -> Interval | None:
        element = interval_of(substitute(producer.map, self.hidden), known.get)
        total = element.times(producer.over.extent) if element and producer.combiner == "sum" else None
        return total if total is not None and max(-total.low, total.high) < LARGEST["float32"] else None

    def _absorbed(self, combiner: str, element: Expr, known: Known, lowest: Mapping[Expr, float]) -> bool:
        result = interval_of(substitute(element, self.hidden), known.get)
        if result is not None and combiner == "max" and result.high < lowest.get(element, -math.inf):
            return True
        neutral = identity(combiner, element.dtype)
        return result == Interval(neutral, neutral)


def _at_most(node: Load, most: float) -> Interval:
    return Interval(-math.inf, min(most, LARGEST[node.dtype]))


def _within(node: Load, most: float) -> Interval:
    return Interval(-min(most, LARGEST[node.dtype]), min(most, LARGEST[node.dtype]))
