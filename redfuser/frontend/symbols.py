"""The symbolic dimensions of a model as TVM variables. Imports TVM: import it lazily."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import arith, tirx
from tvm.ir import Range

from redfuser.signature import ANY_SIZE, DimRange, DimSum


class OutOfRange(Exception):
    """The model doesn't take all sizes of a symbolic dimension, but some."""

    def __init__(self, name: str, taken: DimRange) -> None:
        super().__init__(f"dimension {name!r} is one of {taken} here")
        self.name = name
        self.taken = taken


class Tied(Exception):
    """The model takes those sizes alone at which a symbolic dimension is a sum of others."""

    def __init__(self, name: str, total: DimSum) -> None:
        super().__init__(f"dimension {name!r} is {total} here")
        self.name = name
        self.total = total


class Symbols:
    """The symbolic dimensions of a model.

    Args:
        ranges: of each dimension, by its name.
        sums: what those dimensions are that others decide.

    Attributes:
        variables: what stands for each other dimension in Relax; names from the model never become identifiers
            unchanged.
        extents: what stands for each dimension: its variable, or the sum of some.
    """

    def __init__(self, ranges: Mapping[str, DimRange], sums: Mapping[str, DimSum] | None = None) -> None:
        self.ranges = dict(ranges)
        self.sums = dict(sums or {})
        self.variables: dict[str, tirx.Var] = {}
        self._analyzer = arith.Analyzer()
        for name, bounds in ranges.items():
            if name not in self.sums:
                variable = tirx.Var(self._identifier(name), "int64")
                self.variables[name] = variable
                self._analyzer.bind(variable, Range(bounds.low, bounds.high + 1))
        self.extents: dict[str, tirx.PrimExpr] = {**self.variables}
        for name, total in self.sums.items():
            terms = [self.variables[dim] * count for dim, count in total.counts.items()]
            self.extents[name] = (
                sum(terms, start=expression(total.constant)) if total.constant else sum(terms[1:], terms[0])
            )

    def _identifier(self, name: str) -> str:
        safe = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        base = safe if safe[:1].isalpha() else f"n_{safe}"
        taken = {variable.name for variable in self.variables.values()}
        return next(n for n in (base, *(f"{base}_{k}" for k in range(len(taken) + 1))) if n not in taken)

    def cover(self, extents: Sequence[tirx.PrimExpr]) -> bool:
        """Whether extents are known once the dimensions are."""
        own = set(self.variables.values())
        return all(set(tirx.analysis.undefined_vars(extent)) <= own for extent in extents)

    def simplify(self, value: Any) -> Any:
        """An integer where the expression has one value only, else the simplest form of it."""
        if isinstance(value, int | np.integer):
            return int(value)
        simple = self._analyzer.simplify(value)
        return int(simple) if isinstance(simple, tirx.IntImm) else simple

    def decide(self, condition: Any) -> bool:
        """Whether a condition holds whatever the dimensions.

        Raises:
            ValueError: it depends on them.
        """
        if isinstance(condition, bool | int | np.bool_):
            return bool(condition)
        if self._analyzer.can_prove(condition):
            return True
        if self._analyzer.can_prove(tirx.Not(condition)):
            return False
        raise ValueError(f"{condition} depends on the symbolic dimensions")

    def at_least(self, extent: Any, count: int) -> bool:
        """Whether an extent is ``count`` at least.

        Raises:
            OutOfRange: it is a symbolic dimension that may be less.
            ValueError: it depends on several of them.
        """
        name = self.name_of(extent)
        if name is not None and self.ranges[name].low < count:
            raise OutOfRange(name, DimRange(count, ANY_SIZE.high))
        return self.decide(extent >= count)

    def require_least(self, extent: Any, count: int) -> None:
        """Check that an extent is ``count`` at least, whatever the dimensions; nothing is known of one of several.

        A dimension may be 0 only where nothing that is computed is empty then.

        Raises:
            OutOfRange: it is for sizes of the one dimension that it depends on from some on, or up to some.
            ValueError: it is less.
        """
        if isinstance(extent, int):
            if extent < count:
                raise ValueError(f"it would have {extent} elements along an axis")
            return
        used = tirx.analysis.undefined_vars(extent)
        for name, variable in self.variables.items():
            may_be_empty = self.ranges[name].low == 0 and any(variable.same_as(each) for each in used)
            if may_be_empty and not self._analyzer.can_prove(extent >= 1):
                raise OutOfRange(name, ANY_SIZE)
        name = next((n for n, v in self.variables.items() if len(used) == 1 and v.same_as(used[0])), "")
        if not name or self._analyzer.can_prove(extent >= count):
            return

        def holds(size: int) -> bool:
            found = self.simplify(tirx.stmt_functor.substitute(extent, {used[0]: expression(size)}))
            return isinstance(found, int) and found >= count

        bounds = self.ranges[name]
        sizes = range(bounds.low, max(bounds.high, ANY_SIZE.high) + 1)
        if not holds(bounds.low) and holds(sizes[-1]):
            raise OutOfRange(name, DimRange(sizes[bisect_left(sizes, True, key=holds)], sizes[-1]))
        if holds(bounds.low) and not holds(bounds.high):
            first = bisect_left(sizes, True, key=lambda size: not holds(size))
            raise OutOfRange(name, DimRange(ANY_SIZE.low, sizes[first - 1]))

    def require_equal(self, a: Any, b: Any) -> None:
        """Check that two extents are the same whatever the dimensions.

        Raises:
            OutOfRange: they are up to some size of the one dimension that they depend on.
            Tied: they are where one dimension is a sum of others.
            ValueError: they are for some sizes only.
        """
        difference = self.simplify(expression(a) - expression(b))
        if isinstance(difference, int) and not difference:
            return
        name, most = self._vanishes(difference)
        if name:
            raise OutOfRange(name, self._up_to(name, most))
        self._tie(difference)
        raise ValueError(f"its operands fit each other only if the symbolic dimensions make {a} and {b} the same")

    def _tie(self, difference: Any) -> None:
        """Raise :class:`Tied` where a difference is 0 only if some dimension is a sum of others; the last such one."""
        used = [] if isinstance(difference, int) else list(tirx.analysis.undefined_vars(difference))
        if len(used) < 2:
            return
        names = [name for name, variable in self.variables.items() if any(variable.same_as(each) for each in used)]
        found = arith.detect_linear_equation(difference, [self.variables[name] for name in names])
        if not found or not all(isinstance(value, tirx.IntImm) for value in found):
            return
        *factors, constant = map(int, found)
        for name, factor in reversed(list(zip(names, factors, strict=True))):
            counts = {other: -factor * count for other, count in zip(names, factors, strict=True) if other != name}
            if abs(factor) == 1 and min(counts.values()) > 0 and -factor * constant >= 0:
                raise Tied(name, DimSum(counts, -factor * constant))

    def _vanishes(self, difference: Any) -> tuple[str, int]:
        """The dimension up to some size of which a difference of extents is 0, and that size; "" if there is none."""
        used = [] if isinstance(difference, int) else tirx.analysis.undefined_vars(difference)
        name = next((n for n, v in self.variables.items() if len(used) == 1 and v.same_as(used[0])), "")
        if not name:
            return "", 0
        variable, bounds = self.variables[name], self.ranges[name]

        def differs(size: int) -> bool:
            return self.simplify(tirx.stmt_functor.substitute(difference, {variable: expression(size)})) != 0

        count = bisect_left(range(bounds.low, bounds.high + 1), True, key=differs)
        analyzer = arith.Analyzer()
        analyzer.bind(variable, Range(bounds.low, bounds.low + count))
        proved = count and analyzer.can_prove_equal(difference, expression(0))
        return (name, bounds.low + count - 1) if proved else ("", 0)

    def at_most(self, last: Any, extent: Any) -> None:
        """Note that ``last`` is the largest of indices into ``extent`` elements; None says nothing.

        Raises:
            OutOfRange: it is a symbolic dimension and a constant, and may leave a static extent. ONNX calls that an
                error, and a kernel couldn't tell.
        """
        if last is None or not isinstance(extent, int):
            return
        for name, own in self.extents.items():
            offset = self.simplify(last - own)
            if isinstance(offset, int) and 1 <= extent - 1 - offset < self.ranges[name].high:
                raise OutOfRange(name, self._up_to(name, extent - 1 - offset))

    def _up_to(self, name: str, most: int) -> DimRange:
        """Sizes of a dimension that aren't above one."""
        return DimRange(min(ANY_SIZE.low, self.ranges[name].low), most)

    def name_of(self, extent: Any) -> str | None:
        """The name of the dimension that an extent is, if it is one."""
        if isinstance(extent, int | tirx.IntImm):
            return None
        return next((n for n, own in self.extents.items() if self._analyzer.can_prove_equal(own, extent)), None)

    def later(self, start: Any, end: Any) -> Any:
        """The end of a slice, or its start where that comes after it: nothing lies between the two."""
        ends = expression(end)
        return end if self._analyzer.can_prove(ends >= expression(start)) else tirx.Max(ends, expression(start))

    def within(self, start: Any, extent: Any) -> Any:
        """A bound of a slice brought inside ``0 … extent``; negative ones count from the end.

        Raises:
            OutOfRange: it is a symbolic dimension that may exceed a static extent. ONNX would take less than asked for,
                which no other part of the graph expects.
        """
        start, extent = self.simplify(start), self.simplify(extent)
        if isinstance(start, int) and start < 0:
            start = self.simplify(tirx.Max(expression(start + extent), expression(0)))
        name = self.name_of(start)
        if name is not None and isinstance(extent, int):
            if self.ranges[name].high > extent:
                raise OutOfRange(name, self._up_to(name, extent))
            return start
        return self.simplify(tirx.Min(expression(start), expression(extent)))


def expression(value: Any) -> tirx.PrimExpr:
    """An integer as TVM has it; an expression as it is."""
    return tirx.IntImm("int64", int(value)) if isinstance(value, int | np.integer) else value
