"""Writes TIR statements one after another; loops and conditions are ``with`` blocks.

Index arithmetic stays in :mod:`redfuser.expr` until a statement is written: loop variables are
:class:`~redfuser.expr.Axis` values with known ranges, so that indices can be simplified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redfuser.expr import PAIR, Axis, Const, Expr, Op, Symbol, axis, index
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import Dim, Extent, is_symbolic, terms_of
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import Buffer, PrimExpr, Stmt, Var

#: Arrays of fewer bytes live on the stack.
STACK_BYTES = 1024

KINDS = {"serial": 0, "parallel": 1, "unroll": 3}


class Builder:
    """One function's body being written.

    Args:
        dtype: of index arithmetic; 64 bits where tensors have too many elements for 32.
        dims: symbolic dimensions, which the function takes as parameters.

    Attributes:
        variables: loop coordinates and named indices in scope -> their TIR variables.
        parameters: the variables of the dimensions, in order; 64 bits.
    """

    def __init__(self, dtype: str = "int32", dims: Sequence[Dim] = ()) -> None:
        from tvm.tirx import Var

        self.dtype = dtype
        self.variables: dict[Axis, Var] = {}
        self._blocks: list[list[Stmt]] = [[]]
        self._names: dict[str, int] = {}
        self._definitions: dict[str, str] = {}
        self.parameters = [Var(self.unique(dim.name), "int64") for dim in dims]
        self._dims: dict[Dim, PrimExpr] = {}
        for dim, variable in zip(dims, self.parameters, strict=True):
            self._dims[dim] = variable if dtype == "int64" else self._shortened(dim, variable)

    def _shortened(self, dim: Dim, variable: Var) -> Var:
        """A dimension as a variable of the index type."""
        from tvm.tirx import Bind, Var

        short = Var(self.unique(f"{dim.name}_short"), self.dtype)
        self.emit(Bind(short, variable.astype(self.dtype)))
        return short

    def shape(self, extents: Sequence[Extent]) -> list[PrimExpr]:
        """Extents of an array that is a parameter."""
        dims = {dim: variable for dim, variable in zip(self._dims, self.parameters, strict=True)}
        return [_polynomial(extent, dims, "int64") for extent in extents]

    def unique(self, name: str) -> str:
        """A name that is an identifier and not in use yet."""
        safe = "".join(c if c.isalnum() else "_" for c in name)
        number = self._names[safe] = self._names.get(safe, -1) + 1
        return f"{safe}_{number}" if number else safe

    def emit(self, statement: Stmt) -> None:
        """Append a statement to the innermost open block."""
        self._blocks[-1].append(statement)

    def define(self, name: str, definition: str) -> None:
        """Have a function in LLVM's own language at hand, which what is written calls by its name."""
        self._definitions[name] = definition

    def body(self) -> Stmt:
        """Everything written so far as one statement, with the definitions of what it calls."""
        from tvm.tirx import AttrStmt, StringImm

        body = self.sequence(self._blocks[-1])
        if not self._definitions:
            return body
        text = "".join(self._definitions[name] for name in sorted(self._definitions))
        return AttrStmt(StringImm("definitions"), "pragma_import_llvm", StringImm(text), body)

    @staticmethod
    def sequence(statements: list[Stmt]) -> Stmt:
        """Statements one after another as one."""
        from tvm.tirx import Evaluate, SeqStmt

        if not statements:
            return Evaluate(0)
        return statements[0] if len(statements) == 1 else SeqStmt(statements)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collect statements instead of appending them."""
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    @contextmanager
    def loop(self, name: str, extent: int, kind: str = "serial", count: PrimExpr | None = None) -> Iterator[Expr]:
        """A loop over ``range(extent)``; gives its coordinate. A single iteration makes no loop.

        Args:
            count: number of iterations where it is known only at run time; ``extent`` is then the most there can be.
        """
        from tvm.tirx import For, Var

        if extent == 1 and count is None:
            yield index(0)
            return
        coordinate = axis(self.unique(name), extent)
        variable = Var(coordinate.name, self.dtype)
        self.variables[coordinate] = variable
        with self.block() as body:
            yield coordinate
        if body and extent:
            self.emit(For(variable, 0, extent if count is None else count, KINDS[kind], self.sequence(body)))

    @contextmanager
    def when(self, condition: PrimExpr) -> Iterator[None]:
        """Statements that run only if ``condition`` holds."""
        from tvm.tirx import IfThenElse

        with self.block() as body:
            yield
        if body:
            self.emit(IfThenElse(condition, self.sequence(body), None))

    def coordinate(self, name: str, value: Expr, extent: int) -> Expr:
        """Name an index that lies in ``range(extent)``."""
        if extent == 1:
            return index(0)
        return value if isinstance(value, Axis) else self.named(name, self.index(value), extent)

    def named(self, name: str, value: PrimExpr, extent: int) -> Axis:
        """A coordinate of its own for a value of the index type that lies in ``range(extent)``."""
        from tvm.tirx import Bind, Var

        coordinate = axis(self.unique(name), extent)
        self.variables[coordinate] = Var(coordinate.name, self.dtype)
        self.emit(Bind(self.variables[coordinate], value))
        return coordinate

    def bind(self, name: str, value: PrimExpr) -> PrimExpr:
        """Keep a value that is used more than once.

        In an array of its own: TVM's simplifier would put a bound variable's value back in place of each use.
        """
        from tvm.tirx import BufferLoad, FloatImm, IntImm, Ramp

        if isinstance(value, IntImm | FloatImm):
            return value
        lanes = lanes_of(value)
        array = self.allocate(name, lanes, scalar_dtype(value))
        place = Ramp(self.number(0), 1, lanes) if lanes > 1 else self.number(0)
        self.store(array, place, value)
        return BufferLoad(array, [place])

    def allocate(self, name: str, size: Extent, dtype: str) -> Buffer:
        """A flat buffer that lives to the end of the innermost open block; of bytes for bools, float32 for narrow
        floats, 64-bit integers for pairs.

        TVM puts small arrays of global scope on the stack, where LLVM keeps them in registers if it can, and
        all others on the heap.
        """
        from tvm.tirx import AllocBuffer, decl_buffer

        narrow = dtype == "bfloat16" or dtype.startswith("float8")
        dtype = "float32" if narrow else {"bool": "int8", PAIR: "int64"}.get(dtype, dtype)
        is_open = is_symbolic(size)
        small = not is_open and size * numpy_dtype(dtype).itemsize < STACK_BYTES
        scope = "global" if small else "local"
        shape = self.shape([size]) if is_open else (max(size, 1),)
        buffer = decl_buffer(shape, dtype, self.unique(name), scope=scope, data_alignment=64)
        self.emit(AllocBuffer(buffer))
        return buffer

    def store(self, buffer: Buffer, position: PrimExpr, value: PrimExpr) -> None:
        """``buffer[position] = value`` for a flat buffer; scalars are broadcast to the position's width."""
        from tvm.tirx import BufferStore

        self.emit(BufferStore(buffer, matched(value, lanes_of(position)), [position]))

    def bring(self, buffer: Buffer, where: Expr) -> None:
        """Prefetch the line of an element of a flat buffer to the second-level cache; it may lie behind the end."""
        from tvm.tirx import BufferLoad, Evaluate, address_of, call_llvm_intrin, const

        element = address_of(BufferLoad(buffer, [self.index(where)]))
        read, to_l2, data = (const(n, "int32") for n in (0, 2, 1))
        self.emit(Evaluate(call_llvm_intrin("void", "llvm.prefetch", element, read, to_l2, data)))

    def index(self, value: Expr) -> PrimExpr:
        """A scalar index, simplified; only what :func:`arithmetic` accepts."""
        return self._arithmetic(linear(value).expr())

    def _arithmetic(self, value: Expr) -> PrimExpr:
        from tvm import tirx

        if isinstance(value, Const):
            return tirx.const(int(value.value), self.dtype)
        if isinstance(value, Axis):
            return self.variables[value]
        if isinstance(value, Symbol):
            return _polynomial(value.size, self._dims, self.dtype)
        assert isinstance(value, Op)
        return getattr(tirx, _OPERATORS[value.name])(*map(self._arithmetic, value.args))

    def number(self, value: int) -> PrimExpr:
        """A constant of the index type."""
        from tvm.tirx import const

        return const(value, self.dtype)


def lanes_of(value: PrimExpr) -> int:
    """Width of a vector value; 1 for a scalar."""
    name = str(value.dtype)
    return int(name.rsplit("x", 1)[1]) if name[-1].isdigit() and "x" in name else 1


def scalar_dtype(value: PrimExpr) -> str:
    """Type of one element."""
    name = str(value.dtype)
    return name.rsplit("x", 1)[0] if lanes_of(value) > 1 else name


def matched(value: PrimExpr, lanes: int) -> PrimExpr:
    """``value`` in every lane of a vector, if it isn't one already."""
    from tvm.tirx import Broadcast

    return value if lanes_of(value) == lanes or lanes == 1 else Broadcast(value, lanes)


def arithmetic(value: Expr) -> bool:
    """Whether :meth:`Builder.index` can write an expression."""
    if isinstance(value, Op):
        return value.name in _OPERATORS and all(map(arithmetic, value.args))
    return isinstance(value, Axis | Const | Symbol)


def _polynomial(value: Extent, dims: Mapping[Dim, PrimExpr], dtype: str) -> PrimExpr:
    """A number of elements as an expression of dimensions."""
    from tvm.tirx import const

    total: PrimExpr | None = None
    for monomial, c in terms_of(value):
        factors = [dims[dim] for dim in monomial]
        factors = [*factors, const(c, dtype)] if c != 1 or not factors else factors
        part = factors[0]
        for factor in factors[1:]:
            part = part * factor
        total = part if total is None else total + part
    return const(0, dtype) if total is None else total


_OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "floordiv": "FloorDiv",
    "floormod": "FloorMod",
    "min": "Min",
    "max": "Max",
}
