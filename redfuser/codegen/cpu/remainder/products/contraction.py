"""Recognises matrix products: a sum of products whose factors share the summed axes and little else. No TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redfuser.cascade.graph import Definition
from redfuser.codegen.cpu.remainder.flat import address, flat, flatten, index_forms, normalise, stride
from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, axes_of, axis, cast, load, loads, substitute, transform
from redfuser.extents import most
from redfuser.indexing import linear

#: dtype of a sum -> dtype it is accumulated in
ACCUMULATORS = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
    "int32": "int32",
}


@dataclass(frozen=True)
class Contraction:
    """``target[address] = epilogue(Σ over reduced of left · right)``, a matrix product for every point of ``outer``.

    All expressions load flat tensors.

    Args:
        outer: axes of independent products.
        row: the axis only ``left`` has (extent 1 where there is none).
        column: the innermost axis of ``target``, contiguous there; only ``right`` has it.
        reduced: axes that both factors have.
        left, right: the factors, of the accumulator's dtype.
        total: stands for the sum in ``epilogue``.
        target: what is stored.
        address: where.
        epilogue: the value, in terms of ``total`` and of tensors in memory.
    """

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    reduced: tuple[Axis, ...]
    left: Expr
    right: Expr
    total: Load
    target: Tensor
    address: Expr
    epilogue: Expr

    @property
    def depth(self) -> int:
        """Number of products summed up for one element."""
        total = 1
        for each in self.reduced:
            total *= each.extent
        return total

    @property
    def contiguous(self) -> bool:
        """Whether neighbouring columns of ``right`` lie side by side in memory."""
        return all(stride(linear(node.indices[0]), self.column) in (0, 1) for node in loads(self.right)) and not any(
            stride(form, self.column) for node in loads(self.right) for form in _inner_forms(node)
        )

    def __str__(self) -> str:
        spans = ", ".join(f"{a.name}<{a.extent}" for a in (*self.outer, self.row, self.column))
        over = ", ".join(f"{a.name}<{a.extent}" for a in self.reduced)
        return (
            f"for {spans}: {self.total} = sum over {over} of {self.left} · {self.right}; "
            f"{self.target.name}[{self.address}] = {self.epilogue}"
        )


def _inner_forms(node: Load) -> list:
    """Forms inside the non-affine parts of an address."""
    atoms = [atom for atom, _ in linear(node.indices[0]).terms if not isinstance(atom, Axis)]
    return [form for atom in atoms for child in atom.children for form in index_forms(child)]


def recognise(summed: Definition, final: Definition) -> Contraction | None:
    """A contraction and what is done with its elements, or None.

    Args:
        summed: the reduction.
        final: the element-wise definition of the result; ``summed`` itself if nothing follows.
    """
    factors = _factors(summed.body)
    if summed.combiner != "sum" or summed.tensor.dtype not in ACCUMULATORS or len(factors) < 2:
        return None
    places = places_of(summed, final)
    if places is None:
        return None
    dtype = ACCUMULATORS[summed.tensor.dtype]
    total = load(Tensor("total", (1,), dtype), Const("int64", 0))
    epilogue = epilogue_of(summed, final, cast(total, summed.tensor.dtype))
    column = next((a for a in reversed(final.axes) if a.extent not in (0, 1)), None)
    right = [f for f in factors if column in axes_of(substitute(f, places))]
    left = [f for f in factors if f not in right]
    if column is None or not left or not right:
        return None
    exprs = tuple(flatten(substitute(_product(part, dtype), places)) for part in (left, right))
    exprs = (*exprs, address(final.tensor, final.axes), flatten(epilogue))
    spatial = normalise(final.axes, exprs)
    summing = normalise(summed.reduced, spatial.exprs)
    return _arrange(spatial.axes, summing.axes, summing.exprs, total, flat(final.tensor))


def places_of(summed: Definition, final: Definition) -> dict[Axis, Expr] | None:
    """Axes of the sum in terms of the result's; None unless every element is used just in its own place in memory.

    The result may have another shape than the sum, as after a reshape.
    """
    if summed.tensor == final.tensor:
        return {a: a for a in summed.axes}
    used = [node for node in loads(final.body) if node.tensor == summed.tensor]
    if len(used) != 1 or summed.tensor.size != final.tensor.size:
        return None
    indices = used[0].indices
    if address(summed.tensor, indices) != address(final.tensor, final.axes):
        return None
    return dict(zip(summed.axes, indices, strict=True))


def epilogue_of(summed: Definition, final: Definition, total: Expr) -> Expr:
    if summed.tensor == final.tensor:
        return total
    return transform(final.body, lambda n: total if isinstance(n, Load) and n.tensor == summed.tensor else n)


def _factors(body: Expr) -> list[Expr]:
    if isinstance(body, Op) and body.name == "mul":
        return [factor for argument in body.args for factor in _factors(argument)]
    return [body]


def _product(factors: Sequence[Expr], dtype: str) -> Expr:
    result = cast(factors[0], dtype)
    for factor in factors[1:]:
        result = Op(dtype, "mul", (result, cast(factor, dtype)))
    return result


def _arrange(
    axes: tuple[Axis, ...], reduced: tuple[Axis, ...], exprs: tuple[Expr, ...], total: Load, target: Tensor
) -> Contraction | None:
    left, right, where, epilogue = exprs
    in_left, in_right = axes_of(left), axes_of(right)
    column = axes[-1]
    if column in in_left or column not in in_right or stride(linear(where), column) != 1:
        return None
    if not all(a in in_left and a in in_right for a in reduced):
        return None
    candidates = [a for a in axes if a in in_left and a not in in_right]
    row = max(candidates, key=lambda a: most(a.extent), default=axis("row", 1))
    outer = tuple(a for a in axes if a not in (row, column))
    return Contraction(outer, row, column, reduced, left, right, total, target, where, epilogue)
