"""Matrix products: on tensor cores, in the type that they take, or without them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.expressions import constant
from redfuser.codegen.gpu.emission.integers import signed_bytes
from redfuser.codegen.gpu.emission.operands import Operand, computed, operand
from redfuser.codegen.gpu.emission.precision import HALVES, common_dtype, exact_dtype
from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Expr, Load, axes_of
from redfuser.tile.ir import Buffer, Contract

#: Types that tensor cores multiply; float32 as TF32.
MULTIPLIED = frozenset({"float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8"})

#: Rows and warps that instructions for groups of warps take.
GROUP_ROWS, GROUP_WARPS = 64, 4

#: The part of a float32 that TF32 holds, and what is left of it (0 of an infinity).
HIGH = 'T.reinterpret(T.reinterpret({0}, "uint32") & T.uint32(0xFFFFE000), "float32")'
LOW = f"T.if_then_else({{0}} == {HIGH}, T.float32(0), ({{0}}) - {HIGH})"

#: Option of a schedule: warps share out the columns of matrix products, where rows are too few or too wide.
BY_COLUMNS = "by-columns"

#: Option of a schedule: warps share out rows and columns, so that each reads fewer elements of wide operands.
SQUARE = "square"


def write_contract(block: Block, statement: Contract, clear: bool) -> None:
    """``target += left · right``.

    Args:
        clear: whether the target starts from 0.

    Raises:
        Refused: tensor cores can't compute it.
    """
    target, over = statement.target, statement.over
    rows, columns = _target_axes(block, statement)
    left, right = statement.left, statement.right
    if rows not in axes_of(left):
        left, right = right, left
    if rows not in axes_of(left) or columns not in axes_of(right):
        raise Refused("product", "a matrix product needs one axis of its result in each operand", statement)
    if target.tensor.dtype == "int32":
        block.multiplied.add("int8")
        _integer_product(block, statement, _Side(left, rows), _Side(right, columns), clear)
        block.padding.forget(target.tensor)
        return
    dtype = product_dtype(block, left, right)
    block.multiplied.add(block.fp32 if dtype == "float32" else dtype)
    if dtype == "float32" and block.fp32 != "tf32":
        first, second = _Side(left, rows), _Side(right, columns)
        (_split_product if block.fp32 == "3xtf32" else _plain_product)(block, statement, first, second, clear)
    else:
        registers = dtype != "float32" and not block.options.get(BY_COLUMNS)
        one = operand(block, left, over, rows, dtype, registers)
        other = operand(block, right, over, columns, dtype, registers=False)
        if dtype == "float32":
            _for_groups(block, statement, one, other)
        _gemm(block, statement, one, other, clear, dtype)
    block.padding.forget(target.tensor)


def product_dtype(block: Block, left: Expr, right: Expr) -> str:
    """The type both operands are multiplied in.

    Raises:
        Refused: tensor cores don't take it.
    """
    stored = {tensor: plan.dtype for tensor, plan in block.plan.items()} | block.rounded
    narrow = [exact_dtype(operand, stored) for operand in (left, right)]
    dtype = common_dtype(*narrow)
    if dtype == "float32" and narrow[1] in HALVES and _probability(block, left):
        dtype = narrow[1]
    if dtype not in MULTIPLIED:
        raise Refused("product-type", "tensor cores don't multiply this type", dtype)
    return dtype


def _probability(block: Block, value: Expr) -> bool:
    """Values between 0 and 1 that the graph, in half precision itself, would have rounded too."""
    return isinstance(value, Load) and value.tensor in block.probabilities and block.expressions.fast


def _target_axes(block: Block, statement: Contract) -> tuple[Axis, Axis]:
    spans = block.geometry.wide(statement.target.axes)
    if len(spans) != 2:
        raise Refused("product", "the result of a matrix product has two axes with several points", statement)
    return spans[0].axis, spans[1].axis


def _gemm(block: Block, statement: Contract, left: Operand, right: Operand, clear: bool, dtype: str) -> None:
    target, over = statement.target, statement.over
    result = block.stored(target)
    exact = dtype == "int8" and result.dtype != "int32"
    extents = [span.extent for span in block.geometry.wide(target.axes)]
    sums = block.declare(f"{result.name}_int32", "fragment", extents, "int32") if exact else result.name
    arguments = [left.name, right.name, sums]
    arguments += ["transpose_A=True"] if left.axes[0] == over else []
    arguments += ["transpose_B=True"] if right.axes[1] == over else []
    policy = "FullCol" if block.options.get(BY_COLUMNS) else "Square" if block.options.get(SQUARE) else "FullRow"
    arguments += [f"policy=T.GemmWarpPolicy.{policy}"]
    arguments += ["clear_accum=True"] if clear or exact else []
    block.lines.add(f"T.gemm({', '.join(arguments)})")
    if exact:
        _add_sums(block, target, sums, clear)


def _for_groups(block: Block, statement: Contract, left: Operand, right: Operand) -> None:
    """Declare both operands as TF32, so that groups of four warps multiply them, where their instruction can.

    It takes TF32 with neighbours along the axis summed only: scores, and not the values that they weigh. What is copied
    stays as it is in memory, bit by bit, so nothing else may read it. Elsewhere single warps multiply float32 as TF32.
    """
    rows, columns = block.geometry.wide(statement.target.axes)
    whole = rows.extent % GROUP_ROWS == 0 and columns.extent % 8 == 0 and block.geometry.warps % GROUP_WARPS == 0
    along = left.axes[1] == right.axes[1] == statement.over and left.name != right.name
    if not (block.groups and whole and along) or block.options.get(BY_COLUMNS):
        return
    sources = [tensor for side in (left, right) if (tensor := block.copied.get(side.name)) is not None]
    if len(sources) == 2 and all(block.uses[tensor] == 1 for tensor in sources):
        block.tf32 |= {left.name, right.name, *(block.memory[tensor] for tensor in sources)}


def _add_sums(block: Block, target: Buffer, sums: str, clear: bool) -> None:
    """Add integer sums, which tensor cores keep apart from floating-point ones, to a product's target."""
    spans = block.geometry.wide(target.axes)
    element = block.element(target)
    added = f'T.cast({sums}[{block.variables(spans)}], "{block.stored(target).dtype}")'
    block.parallel(spans, f"{element} = {added}" if clear else f"{element} = {element} + {added}")


@dataclass(frozen=True)
class _Side:
    """An operand as the program has it, and the axis it shares with the result."""

    value: Expr
    axis: Axis


def _split_product(block: Block, statement: Contract, left: _Side, right: _Side, clear: bool) -> None:
    """Three TF32 products of high and low parts, the smallest first: nearly as accurate as float32."""
    over = statement.over
    parts = {
        (side, part): computed(block, side.value, (side.axis, over), over, "float32", False, part)
        for side in (left, right)
        for part in (HIGH, LOW)
    }
    for number, (one, other) in enumerate(((LOW, HIGH), (HIGH, LOW), (HIGH, HIGH))):
        _gemm(block, statement, parts[left, one], parts[right, other], clear and number == 0, "float32")


def _integer_product(block: Block, statement: Contract, left: _Side, right: _Side, clear: bool) -> None:
    """Products of bytes, exact as integers are: values beyond an int8 are sums of several.

    Raises:
        Refused: a value may lie outside what two bytes' sum is here.
    """
    terms = []
    for side in (left, right):
        parts = signed_bytes(side.value, block.ranges)
        if parts is None:
            text = "tensor cores multiply integers of a byte, or of a byte and a sign"
            raise Refused("product-type", text, f"{side.value}: {side.value.dtype}")
        made = {p: operand(block, p, statement.over, side.axis, "int8", False) for p in dict.fromkeys(parts)}
        terms.append([made[part] for part in parts])
    for number, (one, other) in enumerate(product(*terms)):
        _gemm(block, statement, one, other, clear and number == 0, "int8")


def _plain_product(block: Block, statement: Contract, left: _Side, right: _Side, clear: bool) -> None:
    """Multiply and add in float32, without tensor cores."""
    over, target = statement.over, statement.target
    one, other = (operand(block, side.value, over, side.axis, "float32", False) for side in (left, right))
    if clear:
        block.lines.add(f"T.fill({block.stored(target).name}, {constant(0.0, 'float32')})")
    point = block.names.new(f"{over.name}_point")
    factors = []
    for factor in (one, other):
        places = [point if axis == over else block.variable(axis) for axis in factor.axes]
        factors.append(f"{factor.name}[{', '.join(places)}]")
    with block.lines.indented(f"for {point} in T.serial({block.geometry.span(over).extent}):"):
        element = block.element(target)
        spans = block.geometry.wide(target.axes)
        block.parallel(spans, f"{element} = {element} + {factors[0]} * {factors[1]}")
