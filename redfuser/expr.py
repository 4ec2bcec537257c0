"""Scalar expressions: the vocabulary all stages share. Pure Python, no TVM.

An expression gives one element of a tensor as a function of *axes* (loop coordinates). Leaves are
constants, axes and loads; inner nodes apply a named operator. Index arithmetic uses the same nodes
with dtype ``int64``. Expressions are immutable and hashable; equal ones are one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce as fold
from typing import Any, TypeVar

from redfuser.extents import Extent, Size
from redfuser.interning import Interned
from redfuser.operators import COMPARISONS, OPERATORS, PAIR

__all__ = ["COMPARISONS", "OPERATORS", "PAIR"]

INDEX = "int64"


@dataclass(frozen=True)
class Tensor:
    """A named dense array.

    Args:
        name: unique within the value (graph, cascade or program) that holds it.
        shape: extents, symbolic ones included; empty for a scalar.
        dtype: NumPy-style name, or ``float8_e4m3fn`` and the like.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str

    @property
    def size(self) -> Extent:
        """Number of elements."""
        return fold(lambda a, b: a * b, self.shape, 1)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Expr(metaclass=Interned):
    """Base of all expressions. ``dtype`` is the type of the value it gives."""

    dtype: str
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that there is to it."""
        raise NotImplementedError

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((type(self).__name__, self.identity)) or 1)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        assert isinstance(other, Expr)
        return self.identity == other.identity

    def __reduce__(self) -> tuple[object, ...]:
        # String hashes differ between processes: never carry a cached hash across a pickle.
        return (type(self), tuple(getattr(self, name) for name in self.__dataclass_fields__ if name != "_hash"))

    @property
    def children(self) -> tuple[Expr, ...]:
        """Direct sub-expressions, indices of a load included."""
        return ()

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        """The same node over other children."""
        return self


E = TypeVar("E", bound=Expr)


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A literal. NaNs compare equal to each other, 0.0 and -0.0 do not."""

    value: float | int | bool

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.dtype, repr(self.value))

    def __str__(self) -> str:
        return f"{self.value:.9g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True, eq=False)
class Axis(Expr):
    """A loop coordinate, ``0 <= axis < extent``; identified by its name."""

    name: str
    extent: Extent

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.dtype, self.name, self.extent)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Symbol(Expr):
    """A number of elements that is known on the call only."""

    size: Extent

    @property
    def identity(self) -> tuple[object, ...]:
        return (
            self.dtype,
            self.size,
        )

    def __str__(self) -> str:
        return f"({self.size})" if "+" in str(self.size) else str(self.size)


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """One element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.dtype, self.tensor, self.indices)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Load(self.dtype, self.tensor, children)

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.indices))
        return f"{self.tensor.name}[{inner}]" if self.indices else self.tensor.name


@dataclass(frozen=True, eq=False)
class Op(Expr):
    """An operator of :data:`OPERATORS` applied to arguments. ``cast`` converts to ``dtype``."""

    name: str
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        if self.name not in OPERATORS or OPERATORS[self.name][0] != len(self.args):
            raise ValueError(f"not an operator of {len(self.args)} arguments: {self.name}")

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.dtype, self.name, self.args)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def rebuild(self, children: tuple[Expr, ...]) -> Expr:
        return Op(self.dtype, self.name, children)

    def __str__(self) -> str:
        if self.name == "cast":
            return f"{self.dtype}({self.args[0]})"
        return OPERATORS[self.name][1].format(*self.args)


def axis(name: str, extent: Extent) -> Axis:
    """A loop coordinate over ``range(extent)``."""
    return Axis(INDEX, name, extent)


def index(value: Extent) -> Const | Symbol:
    """A constant, or a symbolic size, for index arithmetic."""
    return Symbol(INDEX, value) if isinstance(value, Size) else Const(INDEX, value)


def number(value: float, dtype: str) -> Const:
    """A constant of ``dtype``; infinity is the extreme value of an integer type, and the extreme pair."""
    if "float" in dtype or dtype == PAIR:
        return Const(dtype, float(value))
    if value in (float("inf"), float("-inf")):
        signed = not dtype.startswith("uint")
        bits = int(dtype.removeprefix("uint").removeprefix("int")) - signed
        return Const(dtype, 2**bits - 1 if value > 0 else -(2**bits) * signed)
    return Const(dtype, int(value))


def op(name: str, *args: Expr) -> Expr:
    """Apply an operator; the dtype is that of the first value argument, ``bool`` for comparisons."""
    if name in COMPARISONS:
        return Op("bool", name, args)
    return Op(args[1].dtype if name == "select" else args[0].dtype, name, args)


def cast(value: Expr, dtype: str) -> Expr:
    """Convert a value; no node when the dtype is the same."""
    return value if value.dtype == dtype else Op(dtype, "cast", (value,))


def pair(value: Expr, position: Expr) -> Expr:
    """A value with the position it comes from."""
    return Op(PAIR, "pair", (value, position))


def value_of(item: Expr, dtype: str) -> Expr:
    """The value of a pair, of type ``dtype``."""
    return Op(dtype, "value", (item,))


def position_of(item: Expr) -> Expr:
    """The position of a pair."""
    return Op(INDEX, "position", (item,))


def taken_apart(node: Expr) -> Expr:
    """The part of a pair that is taken from one just made; any other node as it is."""
    if isinstance(node, Op) and node.name in ("value", "position"):
        made = node.args[0]
        if isinstance(made, Op) and made.name == "pair":
            return cast(made.args[0], node.dtype) if node.name == "value" else made.args[1]
    return node


def load(tensor: Tensor, *indices: Expr) -> Load:
    """One element of ``tensor``.

    Raises:
        ValueError: the number of indices isn't the tensor's rank.
    """
    if len(indices) != len(tensor.shape):
        raise ValueError(f"{tensor} takes {len(tensor.shape)} indices, not {len(indices)}")
    return Load(tensor.dtype, tensor, indices)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression, children before parents."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, expanded = stack.pop()
        if node in seen:
            continue
        if expanded:
            seen.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def transform(expr: Expr, rule: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: ``rule`` sees each node after its children were rewritten."""
    memo: dict[Expr, Expr] = {}
    for node in walk(expr):
        children = tuple(memo[child] for child in node.children)
        rebuilt = node if all(a is b for a, b in zip(children, node.children, strict=True)) else node.rebuild(children)
        memo[node] = rule(rebuilt)
    return memo[expr]


def substitute(expr: Expr, replacements: Mapping[E, Expr]) -> Expr:
    """Replace whole sub-expressions (outermost first, never inside a replacement)."""
    if not replacements:
        return expr
    table: Mapping[Any, Expr] = replacements
    memo: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        if node in memo:
            return memo[node]
        if node in table:
            result = table[node]
        elif not node.children:
            result = node
        else:
            children = tuple(visit(child) for child in node.children)
            same = all(a is b for a, b in zip(children, node.children, strict=True))
            result = node if same else node.rebuild(children)
        memo[node] = result
        return result

    return visit(expr)


def loads(expr: Expr) -> tuple[Load, ...]:
    """The distinct loads in an expression, in order of first appearance."""
    return tuple(node for node in walk(expr) if isinstance(node, Load))


def axes_of(expr: Expr) -> frozenset[Axis]:
    """The axes an expression depends on."""
    return frozenset(node for node in walk(expr) if isinstance(node, Axis))
