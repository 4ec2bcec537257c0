"""Attention and routing as published models spell them, one small graph each, in ONNX's own text form.

Random inputs do for all of them: what must be a mask is one by its type, or made one in the graph.
"""

from __future__ import annotations

from onnx import ModelProto

from models.cascades import parsed

#: name -> graph
GRAPHS: dict[str, str] = {
    # DeBERTa: three terms, two of them gathered by relative position, and a mask that replaces.
    "relative_positions": """g (float[2,4,7,8] q, float[2,4,7,8] k, float[2,4,7,8] v, float[2,4,7,15] cp,
         float[2,4,7,15] pc, bool[2,1,7,7] m) => (float[2,4,7,8] y)
        <float s = {4.9}, float least = {-3.4028235e38}, int64[3] three = {8, 7, 7}, int64[4] four = {2, 4, 7, 7},
         int64[4] one = {1, 1, 7, 7}, int64 low = {0}, int64 n = {7}, int64 step = {1},
         int64[1] rows = {0}, int64[1] columns = {1}> {
        kt = Transpose<perm=[0,1,3,2]>(k)  qs = Div(q, s)  a = MatMul(qs, kt)  r = Range(low, n, step)
        rc = Unsqueeze(r, columns)  rr = Unsqueeze(r, rows)  d = Sub(rc, rr)  dn = Add(d, n)  i = Reshape(dn, one)
        ix = Expand(i, four)  cpi = GatherElements<axis=-1>(cp, ix)  pci = GatherElements<axis=-1>(pc, ix)
        pct = Transpose<perm=[0,1,3,2]>(pci)  b = Div(cpi, s)  c = Div(pct, s)  bc = Add(b, c)  sum = Add(a, bc)
        flat = Reshape(sum, three)  scores = Reshape(flat, four)  hidden = Not(m)  w = Where(hidden, least, scores)
        p = Softmax<axis=-1>(w)  pr = Reshape(p, four)  y = MatMul(pr, v) }""",
    # Swin: a bias of all windows and a mask of each.
    "shifted_windows": """g (float[8,2,9,8] q, float[8,2,9,8] k, float[8,2,9,8] v, float[1,2,9,9] bias,
         float[4,9,9] window) => (float[8,2,9,8] y)
        <float s = {0.35}, int64[5] five = {2, 4, 2, 9, 9}, int64[4] four = {8, 2, 9, 9}, int64[2] ax = {0, 2}> {
        kt = Transpose<perm=[0,1,3,2]>(k)  qs = Mul(q, s)  a = MatMul(qs, kt)  ab = Add(a, bias)
        f = Reshape(ab, five)  w = Unsqueeze(window, ax)  fw = Add(f, w)  c = Reshape(fw, four)
        p = Softmax<axis=-1>(c)  y = MatMul(p, v) }""",
    "additive": """g (float[3,5,16] q, float[3,7,16] k, float[16,16] wq, float[16,16] wk, float[16,1] v,
         float[3,7,16] memory) => (float[3,5,16] y) <int64[1] two = {2}, int64[1] one = {1}, int64[1] last = {-1}> {
        a = MatMul(q, wq)  b = MatMul(k, wk)  aq = Unsqueeze(a, two)  bk = Unsqueeze(b, one)  sum = Add(aq, bk)
        t = Tanh(sum)  e = MatMul(t, v)  s = Squeeze(e, last)  p = Softmax<axis=-1>(s)  y = MatMul(p, memory) }""",
    "hidden_by_10000": """g (float[2,2,7,8] q, float[2,2,8,7] kt, float[2,2,7,8] v, bool[2,7] seen)
        => (float[2,2,7,8] y) <float s = {0.35}, float one = {1.0}, float hide = {-10000.0}, int64[2] ax = {1, 2}> {
        a = MatMul(q, kt)  b = Mul(a, s)  f = Cast<to=1>(seen)  u = Unsqueeze(f, ax)  n = Sub(one, u)  h = Mul(n, hide)
        c = Add(b, h)  p = Softmax<axis=-1>(c)  y = MatMul(p, v) }""",
    "two_masks": """g (float[2,2,7,8] q, float[2,2,8,7] kt, float[2,2,7,8] v, bool[7,7] causal, bool[2,1,1,7] seen)
        => (float[2,2,7,8] y) <float s = {0.35}, float zero = {0.0}, float least = {-3.4028235e38}> {
        a = MatMul(q, kt)  b = Mul(a, s)  c = Where(causal, zero, least)  d = Where(seen, zero, least)  m = Add(c, d)
        e = Add(b, m)  p = Softmax<axis=-1>(e)  y = MatMul(p, v) }""",
    "scale_of_one": """g (float[2,2,7,8] q, float[2,2,8,7] kt, float[2,2,7,8] v) => (float[2,2,7,8] y)
        <float one = {1.0}> {
        a = MatMul(q, kt)  b = Mul(a, one)  p = Softmax<axis=-1>(b)  y = MatMul(p, v) }""",
    # Falcon: the bias twice, once inside the mask's choice, and a Reshape between the product and the softmax.
    "alibi_twice": """g (float[4,7,8] q, float[4,8,7] kt, float[4,7,8] v, float[4,1,7] alibi, bool[1,4,7,7] seen)
        => (float[4,7,8] y) <float s = {0.35}, float least = {-3.4028235e38}, int64[4] four = {1, 4, 7, 7},
         int64[4] rows = {1, 4, 1, 7}, int64[3] three = {4, 7, 7}> {
        a = MatMul(q, kt)  b = Mul(a, s)  c = Add(b, alibi)  d = Reshape(c, four)  r = Reshape(alibi, rows)
        rs = Mul(r, s)  w = Where(seen, rs, least)  e = Add(d, w)  p = Softmax<axis=-1>(e)  f = Reshape(p, three)
        y = MatMul(f, v) }""",
    # Scaled on both sides, keys transposed in three dimensions, the guard on NaN.
    "guarded": """g (float[2,2,7,8] q, float[2,2,7,8] k, float[2,2,7,8] v, bool[2,1,7,7] seen) => (float[2,2,7,8] y)
        <float r = {0.5946}, float zero = {0.0}, float least = {-inf}, int64[3] three = {4, 7, 8},
         int64[4] four = {2, 2, 8, 7}> {
        qs = Mul(q, r)  kf = Reshape(k, three)  kt = Transpose<perm=[0,2,1]>(kf)  ku = Reshape(kt, four)
        ks = Mul(ku, r)  a = MatMul(qs, ks)  m = Where(seen, zero, least)  b = Add(a, m)
        p = Softmax<axis=-1>(b)  n = IsNaN(p)  c = Where(n, zero, p)  y = MatMul(c, v) }""",
    # T5: the bias inside the mask's choice, no scale, more keys than queries.
    "bias_in_the_mask": """g (float[2,2,7,8] q, float[2,2,8,9] kt, float[2,2,9,8] v, float[1,2,7,9] bias,
         bool[2,1,1,9] seen) => (float[2,2,7,8] y) <float least = {-3.4028235e38}> {
        a = MatMul(q, kt)  w = Where(seen, bias, least)  b = Add(a, w)  p = Softmax<axis=-1>(b)  y = MatMul(p, v) }""",
    # Sparse attention: scores below the third best are hidden. The selection stands apart.
    "best_scores": """g (float[2,2,7,8] q, float[2,2,8,9] kt, float[2,2,9,8] v) => (float[2,2,7,8] y)
        <float s = {0.35}, float hide = {-1e9}, int64[1] three = {3}, int64[1] two = {2}, int64[1] last = {-1}> {
        a = MatMul(q, kt)  b = Mul(a, s)  best, places = TopK<axis=-1>(b, three)
        worst = Slice(best, two, three, last)  below = Less(b, worst)  c = Where(below, hide, b)
        p = Softmax<axis=-1>(c)  y = MatMul(p, v) }""",
    # DeepSeek-V2: experts of the groups whose best is best. Groups lie along another axis, which ends the cascade.
    "group_maxima": """g (float[6,40] x) => (float[6,4] y, int64[6,4] i)
        <int64[1] k = {4}, int64[1] two = {2}, int64[1] a = {-1}, int64[3] split = {6, 5, 8},
         int64[3] three = {6, 5, 1}, int64[2] flat = {6, 40}, float zero = {0.0}, float one = {1.0},
         float[6,5] none = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}> {
        p = Softmax<axis=-1>(x)  grouped = Reshape(p, split)  best = ReduceMax<keepdims=0>(grouped, a)
        gs, gi = TopK<axis=-1, sorted=0>(best, two)  ones = Mul(gs, zero)  marks = Add(ones, one)
        hit = ScatterElements<axis=1>(none, gi, marks)  tall = Reshape(hit, three)  spread = Expand(tall, split)
        mask = Reshape(spread, flat)  keep = Cast<to=9>(mask)  q = Where(keep, p, zero)
        y, i = TopK<axis=-1>(q, k) }""",
}


def spelling(name: str) -> ModelProto:
    """One graph of :data:`GRAPHS` as a checked model.

    Raises:
        KeyError: no such graph.
    """
    return parsed(GRAPHS[name])
