"""Lowering: ONNX -> a Relax module in which every operation is a TIR PrimFunc, traced to ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.cascade.reading.sizes import with_dims
from redfuser.errors import UsageError
from redfuser.frontend.fixing import fix_inputs
from redfuser.frontend.model import OnnxModel, PreparedModel
from redfuser.frontend.normalising.normalise import normalise
from redfuser.frontend.outputs import require_outputs
from redfuser.frontend.ranges import with_pasts, within_sums
from redfuser.frontend.shapes import graph_inputs, resolve_shapes
from redfuser.signature import ANY_SIZE, DimRange, DimSum, TensorSpec

if TYPE_CHECKING:
    from tvm import IRModule
    from tvm.tirx import PrimExpr

    from redfuser.frontend.symbols import Symbols


@dataclass(frozen=True)
class LoweredModel:
    """A model as TVM sees it.

    Args:
        module: Relax ``main`` with one dataflow block; every binding is ``R.call_tir`` of a PrimFunc of
            the module or an item of its tuple. Weights are Relax constants. ``main`` returns the only
            output, or a tuple of all.
        inputs: in the order of ``main``'s parameters.
        outputs: in the order of ``main``'s result.
        dims: range of each dimension that is known on the call only, by the model's name of it.
        sums: what those of them have to be that others decide, by name.
        extents: what stands for each of them in ``module``, by name: a variable, or a sum of some.
        provenance: name of each bound variable -> names of the ONNX nodes it computes.
        operators: name of each ONNX node -> its operator.
    """

    module: IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dims: Mapping[str, DimRange]
    sums: Mapping[str, DimSum]
    extents: Mapping[str, PrimExpr]
    provenance: Mapping[str, tuple[str, ...]]
    operators: Mapping[str, str]

    def verify(self) -> None:
        """Check what the fields promise.

        Raises:
            AssertionError: they don't hold; a bug of ours.
        """
        import tvm_ffi
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
            shape = tuple(self.extents[n] if isinstance(n, str) else n for n in spec.shape)
            pairs = zip(info.shape, shape, strict=True)
            same = all(a == b if isinstance(b, int) else tvm_ffi.structural_equal(a, b) for a, b in pairs)
            assert same and info.dtype == spec.dtype, f"{spec} is not {info}"
        relax.analysis.well_formed(self.module)

    def __str__(self) -> str:
        lines = ["inputs:", *(f"  {spec}" for spec in self.inputs)]
        lines += ["outputs:", *(f"  {spec}" for spec in self.outputs), "bindings:"]
        for variable, nodes in self.provenance.items():
            lines.append(f"  {variable}: {', '.join(f'{self.operators[node]} {node!r}' for node in nodes)}")
        return "\n".join([*lines, "module:", self.module.script(show_meta=False)])


def lower(
    model: OnnxModel,
    dims: Mapping[str, int | DimRange] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    convolves_bytes: bool = False,
) -> LoweredModel:
    """:func:`prepare` and :func:`lower_prepared`, in this process: for models that are trusted."""
    return lower_prepared(prepare(model, dims, shapes, convolves_bytes=convolves_bytes))


def prepare(
    model: OnnxModel,
    dims: Mapping[str, int | DimRange] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    convolves_bytes: bool = False,
) -> PreparedModel:
    """Decide the shapes and normalise: all that is done with ONNX alone.

    Args:
        model: as loaded.
        dims: extents of symbolic dimensions, or the ranges they stay symbolic over, by name.
        shapes: whole shapes of inputs, by input name.
        values: elements of inputs that become constants, by input name.
        convolves_bytes: whether convolutions of dequantised bytes become products of bytes.

    Raises:
        UsageError, DynamicShapeError: see :func:`redfuser.frontend.shapes.resolve_shapes`.
        ModelError: the graph contradicts itself, or what the model says of its outputs.
    """
    resolved, ranges = resolve_shapes(fix_inputs(model.proto, values or {}), dims, shapes)
    nodes = len(model.proto.graph.node)
    normal = normalise(resolved, convolves_bytes)
    require_outputs(model.proto.graph.output, normal.graph.output, graph_inputs(model.proto))
    return PreparedModel(model.path, normal, model.digest, model.size, model.opset, nodes, ranges)


def lower_prepared(model: PreparedModel) -> LoweredModel:
    """Import and legalise.

    Raises:
        UsageError: a symbolic dimension was given sizes that the model doesn't take.
        UnsupportedOperatorError: names the operator and the node.
    """
    from redfuser.frontend.legalise import legalise

    normal = model.proto
    imported, symbols = _import(model)
    module, owners = legalise(imported, normal.graph.node)
    module = with_dims(module, {v.name: symbols.ranges[name] for name, v in symbols.variables.items()})
    nodes = normal.graph.node
    main = module["main"]
    inputs = [_spec(value.name, p, symbols) for value, p in zip(normal.graph.input, main.params, strict=True)]
    results = main.body.body.fields if len(normal.graph.output) > 1 else [main.body.body]
    outputs = [_spec(v.name, r, symbols) for v, r in zip(normal.graph.output, results, strict=True)]
    return LoweredModel(
        module=module,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        dims=symbols.ranges,
        sums=symbols.sums,
        extents=symbols.extents,
        provenance={variable: (nodes[owner].name,) for variable, owner in owners.items()},
        operators={node.name: node.op_type for node in nodes},
    )


def _import(model: PreparedModel) -> tuple[IRModule, Symbols]:
    """The imported model; a dimension that was given no range gets the one that the model's own tables allow."""
    from redfuser.frontend.importer import import_graph
    from redfuser.frontend.symbols import OutOfRange, Symbols, Tied

    ranges = with_pasts(model.proto, model.dims)
    sums: dict[str, DimSum] = {}
    while True:
        ranges = within_sums(ranges, sums)
        symbols = Symbols(ranges, sums)
        try:
            return import_graph(model.proto, symbols, model.weights), symbols
        except Tied as tie:
            sums = {name: total.replaced(tie.name, tie.total) for name, total in sums.items()}
            sums[tie.name] = tie.total
        except OutOfRange as limit:
            bounds, taken = ranges[limit.name], limit.taken
            fitting = DimRange(max(bounds.low, taken.low), min(bounds.high, taken.high))
            if model.dims[limit.name] != ANY_SIZE or fitting.low > fitting.high:
                raise UsageError(
                    f"--dim {limit.name}={bounds}: the model takes sizes of {taken} alone",
                    f"compile with --dim {limit.name}={taken.clamp(bounds.low)}:{taken.clamp(bounds.high)}",
                ) from limit
            ranges = {**ranges, limit.name: fitting}


def _spec(name: str, value: object, symbols: Symbols) -> TensorSpec:
    info = value.struct_info  # type: ignore[attr-defined]
    return TensorSpec(name, tuple(_extent(extent, symbols) for extent in info.shape), str(info.dtype))


def _extent(extent: PrimExpr, symbols: Symbols) -> int | str:
    from tvm import tirx

    if isinstance(extent, tirx.IntImm):
        return int(extent)
    return symbols.name_of(extent) or str(extent)
