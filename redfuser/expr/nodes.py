"""What expressions are made of: tensors, and the nodes of a tree. Immutable and hashable; equal ones are one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce as fold

from redfuser.expr.interning import Interned
from redfuser.expr.operators import OPERATORS
from redfuser.extents import Extent


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
