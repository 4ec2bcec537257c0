"""Pairs of a value and a position as one 64-bit integer of the same order: value above, position below.

So a maximum of pairs is a maximum of integers, whatever ties and NaN the values hold. A float's bits become an integer
that orders like it; all NaN become the one above infinity, and both zeros the same.
"""

from __future__ import annotations

import re
from dataclasses import replace

from redfuser.codegen.refusal import Refused
from redfuser.expr import INDEX, PAIR, Const, Expr, Load, Op, Tensor, load, number, transform
from redfuser.tile.ir import Buffer, Phase, Statement, Store, Stream, TileProgram
from redfuser.tile.strategies.reuse import rewrite

#: Values of these types need more than 32 bits.
_WIDE = frozenset({"float64", "int64", "uint32", "uint64"})

#: What a script calls, by name.
HELPERS = {
    "ordered": '''def ordered(value):
    """A float32 as an integer of the same order: NaN above infinity, both zeros alike."""
    bits = T.Var("bits", "int32")
    size = bits & T.int32(0x7FFFFFFF)
    signed = T.if_then_else(bits < 0, -size, size)
    result = T.if_then_else(size > T.int32(0x7F800000), T.int32(0x7FC00000), signed)
    return T.Let(result, where={bits: T.reinterpret(value, "int32")})''',
    "restored": '''def restored(integer):
    """The float32 that ``ordered`` made an integer."""
    number = T.Var("number", "int32")
    bits = T.if_then_else(number < 0, T.int32(-0x80000000) - number, number)
    return T.reinterpret(T.Let(bits, where={number: integer}), "float32")''',
    "pair": '''def pair(value, position):
    """A 64-bit integer that orders by value, then by position."""
    return (T.cast(value, "int64") << T.int64(32)) + (T.cast(position, "int64") + T.int64(0x80000000))''',
    "value_of": '''def value_of(pair):
    """The value of a pair, an int32."""
    return T.cast(pair >> T.int64(32), "int32")''',
    "position_of": '''def position_of(pair):
    """The position of a pair, an int64."""
    return T.cast(T.cast(pair, "int32") ^ T.int32(-0x80000000), "int64")''',
}


def selects(program: TileProgram) -> bool:
    """Whether elements are picked, for which the last places of their values decide."""
    return any(buffer.tensor.dtype == PAIR for phase in program.phases for buffer in phase.buffers)


def pairs_as_integers(program: TileProgram) -> TileProgram:
    """The program with an ``int64`` wherever a pair is kept or compared."""
    return replace(
        program, workspaces=tuple(map(_tensor, program.workspaces)), phases=tuple(map(_phase, program.phases))
    )


def pair_text(dtype: str, value: str, position: str) -> str:
    """Text of the pair of a value of type ``dtype`` and a position.

    Raises:
        Refused: values of this type don't fit.
    """
    if dtype in _WIDE:
        raise Refused("type-without-code", "a pair holds values of up to 32 bits", f"selections among {dtype}")
    computed = "float32" if "float" in dtype else "int32"
    value = value if dtype == computed else f'T.cast({value}, "{computed}")'
    return f"pair({f'ordered({value})' if computed == 'float32' else value}, {position})"


def value_text(pair: str, dtype: str) -> str:
    """Text of a pair's value as one of type ``dtype``."""
    computed = "float32" if "float" in dtype else "int32"
    value = f"restored(value_of({pair}))" if computed == "float32" else f"value_of({pair})"
    return value if dtype == computed else f'T.cast({value}, "{dtype}")'


def helpers(body: str) -> tuple[str, ...]:
    """Definitions of what the body of a kernel calls."""
    return tuple(code for name, code in HELPERS.items() if re.search(rf"\b{name}\(", body))


def _phase(phase: Phase) -> Phase:
    return replace(phase, buffers=tuple(map(_buffer, phase.buffers)), body=tuple(map(_statement, phase.body)))


def _statement(statement: Statement) -> Statement:
    if isinstance(statement, Stream):
        return replace(statement, body=tuple(map(_statement, statement.body)))
    if isinstance(statement, Store):
        return replace(statement, tensor=_tensor(statement.tensor), value=_expr(statement.value))
    return rewrite(statement, _expr, _buffer)


def _buffer(buffer: Buffer) -> Buffer:
    return replace(buffer, tensor=_tensor(buffer.tensor))


def _tensor(tensor: Tensor) -> Tensor:
    return replace(tensor, dtype=INDEX) if tensor.dtype == PAIR else tensor


def _expr(expr: Expr) -> Expr:
    return transform(expr, _node)


def _node(node: Expr) -> Expr:
    if isinstance(node, Load):
        return load(_tensor(node.tensor), *node.indices)
    if isinstance(node, Const) and node.dtype == PAIR:
        return number(node.value, INDEX)
    if isinstance(node, Op) and node.dtype == PAIR:
        return Op(INDEX, node.name, node.args)
    return node
