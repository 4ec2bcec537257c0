"""Selections and expert routing as ONNX, one small graph each, in ONNX's own text form.

``x`` is the data (tokens by experts), ``hidden`` a token's features and ``gate`` the weight that makes scores of them.
"""

from __future__ import annotations

from onnx import ModelProto

from models.cascades import parsed

#: name -> graph
GRAPHS: dict[str, str] = {
    "softmax_top_k": """g (float[6,40] x) => (float[6,4] v, int64[6,4] i) <int64[1] k = {4}> {
        p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k) }""",
    "softmax_of_top_k": """g (float[6,40] x) => (float[6,4] y, int64[6,4] i) <int64[1] k = {4}> {
        v, i = TopK<axis=-1>(x, k)  y = Softmax<axis=-1>(v) }""",
    "renormalised_top_k": """g (float[6,40] x) => (float[6,4] y, int64[6,4] i)
        <int64[1] k = {4}, int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k)  s = ReduceSum<keepdims=1>(v, a)  y = Div(v, s) }""",
    "argmax_gather": """g (float[6,40] x, float[6,40] z) => (float[6,1] y) {
        i = ArgMax<axis=-1, keepdims=1>(x)  y = GatherElements<axis=-1>(z, i) }""",
    "argmin_gather": """g (float[6,40] x, float[6,40] z) => (float[6,1] y) {
        i = ArgMin<axis=-1, keepdims=1>(x)  y = GatherElements<axis=-1>(z, i) }""",
    "argmax_of_softmax": """g (float[6,40] x) => (int64[6] i) {
        p = Softmax<axis=-1>(x)  i = ArgMax<axis=-1, keepdims=0>(p) }""",
    "last_argmax_of_softmax": """g (float[6,40] x) => (int64[6] i) {
        p = Softmax<axis=-1>(x)  i = ArgMax<axis=-1, keepdims=0, select_last_index=1>(p) }""",
    "switch_top_1": """g (float[6,40] x) => (float[6,1] v, int64[6,1] i) <int64[1] k = {1}> {
        p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k) }""",
    "sorted_softmax": """g (float[6,40] x) => (float[6,40] v, int64[6,40] i) <int64[1] k = {40}> {
        p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k) }""",
    "smallest_of_softmax": """g (float[6,40] x) => (float[6,4] v, int64[6,4] i) <int64[1] k = {4}> {
        p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1, largest=0>(p, k) }""",
    "top_k_across_rows": """g (float[40,6] x) => (float[4,6] y, int64[4,6] i) <int64[1] k = {4}, int64[1] a = {0}> {
        p = Softmax<axis=0>(x)  v, i = TopK<axis=0>(p, k)  s = ReduceSum<keepdims=1>(v, a)  y = Div(v, s) }""",
    "sigmoid_with_bias": """g (float[6,40] x, float[40] bias) => (float[6,4] y, int64[6,4] i)
        <int64[1] k = {4}, int64[1] a = {-1}, float scale = {2.5}> {
        p = Sigmoid(x)  q = Add(p, bias)  v, i = TopK<axis=-1>(q, k)  w = GatherElements<axis=-1>(p, i)
        s = ReduceSum<keepdims=1>(w, a)  d = Div(w, s)  y = Mul(d, scale) }""",
    "softmax_with_bias": """g (float[6,40] x, float[40] bias) => (float[6,4] y, int64[6,4] i) <int64[1] k = {4}> {
        p = Softmax<axis=-1>(x)  q = Add(p, bias)  y, i = TopK<axis=-1>(q, k) }""",
    "gate_softmax_top_k": """g (float[6,24] hidden, float[24,40] gate) => (float[6,4] y, int64[6,4] i)
        <int64[1] k = {4}, int64[1] a = {-1}> {
        x = MatMul(hidden, gate)  p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k)
        s = ReduceSum<keepdims=1>(v, a)  y = Div(v, s) }""",
    "half_precision": """g (float16[6,40] x) => (float16[6,4] y, int64[6,4] i) <int64[1] k = {4}, int64[1] a = {-1}> {
        f = Cast<to=1>(x)  p = Softmax<axis=-1>(f)  v, i = TopK<axis=-1>(p, k)  s = ReduceSum<keepdims=1>(v, a)
        d = Div(v, s)  y = Cast<to=10>(d) }""",
    "group_limited": """g (float[6,40] x) => (float[6,4] y, int64[6,4] i)
        <int64[1] k = {4}, int64[1] two = {2}, int64[1] a = {-1}, int64[3] split = {6, 5, 8},
         int64[3] three = {6, 5, 1}, int64[3] wide = {6, 5, 8}, int64[2] flat = {6, 40},
         float zero = {0.0}, float one = {1.0}, float least = {-inf},
         float[6,5] none = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> {
        p = Sigmoid(x)  grouped = Reshape(p, split)  best, bi = TopK<axis=-1>(grouped, two)
        score = ReduceSum<keepdims=0>(best, a)  gs, gi = TopK<axis=-1, sorted=0>(score, two)
        ones = Mul(gs, zero)  marks = Add(ones, one)  hit = ScatterElements<axis=1>(none, gi, marks)
        tall = Reshape(hit, three)  spread = Expand(tall, wide)  mask = Reshape(spread, flat)
        keep = Cast<to=9>(mask)  q = Where(keep, p, least)
        v, i = TopK<axis=-1>(q, k)  w = GatherElements<axis=-1>(p, i)
        s = ReduceSum<keepdims=1>(w, a)  y = Div(w, s) }""",
}


def routing(name: str) -> ModelProto:
    """One graph of :data:`GRAPHS` as a checked model.

    Raises:
        KeyError: no such graph.
    """
    return parsed(GRAPHS[name])


def router(tokens: int, experts: int, k: int, hidden: int = 0) -> ModelProto:
    """The ``k`` best experts of each token by softmax, and their weights, renormalised.

    Args:
        hidden: features of a token that a gate, an input too, makes scores of; the scores are the input if 0.
    """
    gated = f"float[{tokens},{hidden}] hidden, float[{hidden},{experts}] gate"
    inputs = gated if hidden else f"float[{tokens},{experts}] x"
    return parsed(f"""g ({inputs}) => (float[{tokens},{k}] y, int64[{tokens},{k}] i)
        <int64[1] k = {{{k}}}, int64[1] a = {{-1}}> {{
        {"x = MatMul(hidden, gate)" if hidden else ""}  p = Softmax<axis=-1>(x)  v, i = TopK<axis=-1>(p, k)
        s = ReduceSum<keepdims=1>(v, a)  y = Div(v, s) }}""")
