"""Lowering: ONNX -> a Relax module in which every operation is a TIR PrimFunc, traced to ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.frontend.model import OnnxModel, PreparedModel
from redfuser.frontend.normalise import normalise
from redfuser.frontend.shapes import make_static
from redfuser.signature import TensorSpec

if TYPE_CHECKING:
    from onnx import ModelProto
    from tvm import IRModule


@dataclass(frozen=True)
class LoweredModel:
    """A model as TVM sees it.

    Args:
        module: Relax ``main`` with one dataflow block; every binding is ``R.call_tir`` of a PrimFunc of
            the module or an item of its tuple. Weights are Relax constants. ``main`` returns the only
            output, or a tuple of all.
        inputs: in the order of ``main``'s parameters.
        outputs: in the order of ``main``'s result.
        provenance: name of each bound variable -> names of the ONNX nodes it computes.
        operators: name of each ONNX node -> its operator.
        static_model: the normalised ONNX model that was imported.
    """

    module: IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    provenance: Mapping[str, tuple[str, ...]]
    operators: Mapping[str, str]
    static_model: ModelProto

    def verify(self) -> None:
        """Check what the fields promise.

        Raises:
            AssertionError: they don't hold; a bug of ours.
        """
        from tvm import ir, relax

        main = self.module["main"]
        assert len(main.body.blocks) <= 1, "more than one block"
        bindings = [binding for block in main.body.blocks for binding in block.bindings]
        names = [binding.var.name_hint for binding in bindings]
        assert len(set(names)) == len(names), "variable names repeat"
        call_tir = ir.Op.get("relax.call_tir")
        for binding in bindings:
            value = binding.value
            called = isinstance(value, relax.Call) and value.op == call_tir
            assert called or isinstance(value, relax.TupleGetItem), f"{binding.var.name_hint} is not lowered: {value}"
            nodes = self.provenance.get(binding.var.name_hint, ())
            assert nodes, f"{binding.var.name_hint} comes from no node"
            assert all(node in self.operators for node in nodes), f"{binding.var.name_hint} comes from unknown nodes"
        assert len(main.params) == len(self.inputs), "inputs and parameters differ"
        for parameter, spec in zip(main.params, self.inputs, strict=True):
            info = parameter.struct_info
            assert tuple(map(int, info.shape)) == spec.shape and info.dtype == spec.dtype, f"{spec} is not {info}"
        relax.analysis.well_formed(self.module)

    def __str__(self) -> str:
        lines = ["inputs:", *(f"  {spec}" for spec in self.inputs)]
        lines += ["outputs:", *(f"  {spec}" for spec in self.outputs), "bindings:"]
        for variable, nodes in self.provenance.items():
            lines.append(f"  {variable}: {', '.join(f'{self.operators[node]} {node!r}' for node in nodes)}")
        return "\n".join([*lines, "module:", self.module.script(show_meta=False)])


def lower(
    model: OnnxModel, dims: Mapping[str, int] | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> LoweredModel:
    """:func:`prepare` and :func:`lower_prepared`, in this process: for models that are trusted."""
    return lower_prepared(prepare(model, dims, shapes))


def prepare(
    model: OnnxModel, dims: Mapping[str, int] | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> PreparedModel:
    """Decide the shapes and normalise: all that is done with ONNX alone.

    Args:
        model: as loaded.
        dims: extents of symbolic dimensions, by name.
        shapes: whole shapes of inputs, by input name.

    Raises:
        UsageError, DynamicShapeError: see :func:`redfuser.frontend.shapes.make_static`.
        ModelError: the graph contradicts itself.
    """
    proto = normalise(make_static(model.proto, dims, shapes))
    return PreparedModel(model.path, proto, model.digest, model.size, model.opset, len(model.proto.graph.node))


def lower_prepared(model: PreparedModel) -> LoweredModel:
    """Import and legalise.

    Raises:
        UnsupportedOperatorError: names the operator and the node.
    """
    from redfuser.frontend.importer import import_graph
    from redfuser.frontend.legalise import legalise

    static = model.proto
    module, owners = legalise(import_graph(static), static.graph.node)
    nodes = static.graph.node
    main = module["main"]
    inputs = [_spec(value.name, p) for value, p in zip(static.graph.input, main.params, strict=True)]
    results = main.body.body.fields if len(static.graph.output) > 1 else [main.body.body]
    return LoweredModel(
        module=module,
        inputs=tuple(inputs),
        outputs=tuple(_spec(value.name, r) for value, r in zip(static.graph.output, results, strict=True)),
        provenance={variable: (nodes[owner].name,) for variable, owner in owners.items()},
        operators={node.name: node.op_type for node in nodes},
        static_model=static,
    )


def _spec(name: str, value: object) -> TensorSpec:
    info = value.struct_info  # type: ignore[attr-defined]
    return TensorSpec(name, tuple(int(extent) for extent in info.shape), str(info.dtype))
