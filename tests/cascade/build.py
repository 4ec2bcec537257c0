"""Small graphs of definitions, written down as lowering would leave them."""

from __future__ import annotations

from collections.abc import Mapping

from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Const, Expr, Load, Tensor, axis, index, load, loads, op
from redfuser.extents import Extent


class GraphBuilder:
    """Collects definitions; every binding is one definition unless ``inside`` names the binding."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.inputs_of: dict[str, tuple[str, ...]] = {}
        self.stored: set[str] = set()
        self.constants: set[str] = set()
        self.outputs: set[str] = set()

    def input(self, name: str, *shape: Extent, dtype: str = "float32", constant: bool = False) -> Tensor:
        self.stored.add(name)
        if constant:
            self.constants.add(name)
        return Tensor(name, shape, dtype)

    def define(
        self,
        name: str,
        axes: tuple[Axis, ...],
        body: Expr,
        combiner: str = "",
        over: tuple[Axis, ...] = (),
        inside: str = "",
    ) -> Tensor:
        """Add one definition; ``inside`` makes it an unstored intermediate of that binding."""
        tensor = Tensor(name, tuple(a.extent for a in axes), body.dtype)
        binding = inside or name
        self.definitions[name] = Definition(tensor, axes, over, combiner, body, binding)
        read = tuple(node.tensor.name for node in loads(body))
        self.inputs_of[binding] = self.inputs_of.get(binding, ()) + read
        if not inside:
            self.stored.add(name)
        return tensor

    def opaque(self, name: str, *inputs: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A binding that can't be read: its inputs must exist in memory."""
        self.inputs_of[name] = tuple(t.name for t in inputs)
        self.outputs |= {t.name for t in inputs}
        self.stored.add(name)
        return Tensor(name, shape, "float32")

    def graph(self, *outputs: Tensor, provenance: Mapping[str, tuple[str, ...]] | None = None) -> Graph:
        graph = Graph(
            self.definitions,
            frozenset(self.stored),
            frozenset(self.constants),
            frozenset(self.outputs | {t.name for t in outputs}),
            provenance or {name: (f"node_{name}",) for name in self.inputs_of},
            self.inputs_of,
        )
        graph.verify()
        return graph


def axes(prefix: str, *extents: int) -> tuple[Axis, ...]:
    return tuple(axis(f"{prefix}{k}", extent) for k, extent in enumerate(extents))


def number(value: float) -> Const:
    return Const("float32", value)


def at(tensor: Tensor, *indices: Expr | int) -> Load:
    return load(tensor, *(index(i) if isinstance(i, int) else i for i in indices))


def softmax(g: GraphBuilder, x: Tensor, name: str = "p", whole: bool = True) -> Tensor:
    """Softmax over the last dimension; ``whole`` keeps the parts inside one binding, as lowering does."""
    inside = name if whole else ""
    *rows, last = axes("s", *x.shape)
    k = axis("k", last.extent)
    m = g.define(f"{name}_max", tuple(rows), at(x, *rows, k), "max", (k,), inside)
    e = g.define(f"{name}_exp", (*rows, last), op("exp", op("sub", at(x, *rows, last), at(m, *rows))), inside=inside)
    t = g.define(f"{name}_sum", tuple(rows), at(e, *rows, k), "sum", (k,), inside)
    return g.define(name, (*rows, last), op("div", at(e, *rows, last), at(t, *rows)))


def matmul(g: GraphBuilder, name: str, a: Tensor, b: Tensor) -> Tensor:
    """Batched matrix product, both of one rank."""
    *batch, m = axes("m", *a.shape[:-1])
    n, k = axis("n", b.shape[-1]), axis("k", a.shape[-1])
    return g.define(name, (*batch, m, n), op("mul", at(a, *batch, m, k), at(b, *batch, k, n)), "sum", (k,))


def attention(g: GraphBuilder, heads: int = 2, q_len: int = 5, kv_len: int = 7, dim: int = 4) -> Tensor:
    """``softmax(q · kᵀ · scale + mask) · v`` with K transposed by a view."""
    q = g.input("q", heads, q_len, dim)
    k = g.input("k", heads, kv_len, dim)
    v = g.input("v", heads, kv_len, dim)
    mask = g.input("mask", 1, kv_len)
    h, d, s = axes("t", heads, dim, kv_len)
    kt = g.define("kt", (h, d, s), at(k, h, s, d))
    scores = matmul(g, "scores", q, kt)
    r = axes("r", heads, q_len, kv_len)
    scaled = g.define("scaled", r, op("mul", at(scores, *r), number(0.5)))
    masked = g.define("masked", r, op("add", at(scaled, *r), at(mask, 0, r[2])))
    return matmul(g, "o", softmax(g, masked), v)
