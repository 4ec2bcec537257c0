"""Equal cascades have equal canonical forms: they are derived, tuned and compiled once. No TVM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Const, Expr, Load, Tensor, transform


@dataclass(frozen=True)
class Canonical:
    """A cascade without the names of one place in one model.

    Args:
        cascade: named ``cascade``, inputs ``x0, x1, …`` and outputs ``y0, y1, …``, no ONNX nodes.
        inputs: the original names of the inputs, in order.
        outputs: the original names of the outputs, in order.
        literals: what the last inputs are in this place, where other places have other numbers (see
            :mod:`redfuser.cascade.literals`).
    """

    cascade: Cascade
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    literals: tuple[Const, ...] = ()


def canonicalise(cascade: Cascade) -> Canonical:
    """Strip a cascade of the names it got from its surroundings."""
    renamed = {t: replace(t, name=f"x{k}") for k, t in enumerate(cascade.inputs)}

    def expr(value: Expr) -> Expr:
        def rule(node: Expr) -> Expr:
            return (
                Load(node.dtype, renamed.get(node.tensor, node.tensor), node.indices)
                if isinstance(node, Load)
                else node
            )

        return transform(value, rule)

    def reductions(items: tuple[Reduction, ...]) -> tuple[Reduction, ...]:
        return tuple(replace(item, map=expr(item.map)) for item in items)

    outputs = tuple(_output(k, output, expr(output.value)) for k, output in enumerate(cascade.outputs))
    plain = replace(
        cascade,
        name="cascade",
        inputs=tuple(renamed.values()),
        normal=tuple(renamed[t] for t in cascade.normal),
        producers=reductions(cascade.producers),
        reductions=reductions(cascade.reductions),
        epilogues=reductions(cascade.epilogues),
        outputs=outputs,
        onnx_nodes=(),
    )
    return Canonical(plain, tuple(t.name for t in cascade.inputs), tuple(o.tensor.name for o in cascade.outputs))


def _output(number: int, output: Output, value: Expr) -> Output:
    return replace(output, tensor=Tensor(f"y{number}", output.tensor.shape, output.tensor.dtype), value=value)
