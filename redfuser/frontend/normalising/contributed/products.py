"""Products of the domain com.microsoft: of floating point with what was fused into them, and of 16-bit integers."""

from __future__ import annotations

from redfuser.frontend.normalising.contributed.activations import activate
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.integer_convolutions import ATTRIBUTES


def define_fused_mat_mul(write: Definition) -> None:
    """``alpha · A·B``, each transposed in its last two dimensions, and before that its first moved behind the batch."""
    rank = len(write.shape(0)), len(write.shape(1))
    operands = [
        _transposed(
            write,
            write.input(place),
            rank[place],
            bool(write.attribute(f"trans{letter}", 0)),
            bool(write.attribute(f"transBatch{letter}", 0)),
        )
        for place, letter in enumerate("AB")
    ]
    alpha = write.attribute("alpha", 1.0)
    if alpha == 1:
        write.add("MatMul", *operands, out=write.output(0))
        return
    product = write.add("MatMul", *operands)
    write.add("Mul", product, write.number(alpha, write.element_type(0)), out=write.output(0))


def _transposed(write: Definition, value: str, rank: int, rows: bool, batch: bool) -> str:
    """One operand as MatMul reads it. ``batch``: its first dimension comes after those of the batch."""
    order = list(range(rank))
    if rank < 2:
        return value  # a vector has nothing to transpose
    if batch:
        order = [*order[1:-1], order[0], order[-1]]
    if rows:
        order[-2:] = order[:-3:-1]
    return value if order == list(range(rank)) else write.add("Transpose", value, perm=order)


def define_fused_gemm(write: Definition) -> None:
    """``activation(alpha·A·B + beta·C)``."""
    own = {name: write.attribute(name, 1.0) for name in ("alpha", "beta")}
    own |= {name: write.attribute(name, 0) for name in ("transA", "transB")}
    given = [write.attribute(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    numbers = [number for number in given if number is not None]
    operands = [write.input(place) for place in range(3) if write.input(place)]
    activate(write, write.add("Gemm", *operands, **own), numbers, write.output(0))


def define_fused_conv(write: Definition) -> None:
    """``activation(X * W + bias + Z)``."""
    own = {name: value for name in ATTRIBUTES if (value := write.attribute(name, None)) is not None}
    operands = [write.input(place) for place in range(3) if write.input(place)]
    total = write.total(write.add("Conv", *operands, **own), write.input(3))
    activate(write, total, list(write.attribute("activation_params", ())), write.output(0))


def define_bias_add(write: Definition) -> None:
    """Input + bias + skip."""
    write.total(write.input(0), write.input(1), write.input(2), out=write.output(0))


def define_mat_mul_integer_16(write: Definition) -> None:
    """In 32 bits, unsigned if both operands are."""
    from onnx import TensorProto

    unsigned = all(write.element_type(place) == TensorProto.UINT16 for place in (0, 1))
    kind = int(TensorProto.UINT32 if unsigned else TensorProto.INT32)
    operands = [write.add("Cast", write.input(place), to=kind) for place in (0, 1)]
    write.add("MatMul", *operands, out=write.output(0))
