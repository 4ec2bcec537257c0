"""Cascaded reductions as ONNX, one small graph each, in ONNX's own text form.

``x`` is the data, rows by axis; weights are inputs, so that products with them stay part of the cascade.
"""

from __future__ import annotations

from onnx import ModelProto

HEAD = '<ir_version: 10, opset_import: ["" : {opset}]>\n'

#: floats of 8 bits came with opset 19
OPSETS = {"quantise_gemm_fp8": 19}

#: name -> graph; ``minus_one`` and the like are initialisers
GRAPHS: dict[str, str] = {
    "softmax": "g (float[6,40] x) => (float[6,40] y) { y = Softmax<axis=-1>(x) }",
    "softmax_gemm": """g (float[6,40] x, float[40,8] v) => (float[6,8] y) {
        p = Softmax<axis=-1>(x)  y = MatMul(p, v) }""",
    "softmin": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        l = ReduceMin<keepdims=1>(x, a)  s = Sub(l, x)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a)  y = Div(e, t) }""",
    "logsumexp": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  s = Sub(x, m)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a)
        l = Log(t)  y = Add(l, m) }""",
    "log_softmax": "g (float[6,40] x) => (float[6,40] y) { y = LogSoftmax<axis=-1>(x) }",
    "softmax_statistics": """g (float[6,40] x) => (float[6,1] m, float[6,1] t) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  s = Sub(x, m)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a) }""",
    "cross_entropy": """g (float[6,40] x, float[6,40] target) => (float[6,1] y) <int64[1] a = {-1}> {
        l = LogSoftmax<axis=-1>(x)  w = Mul(l, target)  s = ReduceSum<keepdims=1>(w, a)  y = Neg(s) }""",
    "entropy": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  l = LogSoftmax<axis=-1>(x)  w = Mul(p, l)  s = ReduceSum<keepdims=1>(w, a)
        y = Neg(s) }""",
    "perplexity": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  l = LogSoftmax<axis=-1>(x)  w = Mul(p, l)  s = ReduceSum<keepdims=1>(w, a)
        n = Neg(s)  y = Exp(n) }""",
    "kl_divergence": """g (float[6,40] x, float[6,40] logq) => (float[6,1] y) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  l = LogSoftmax<axis=-1>(x)  d = Sub(l, logq)  w = Mul(p, d)
        y = ReduceSum<keepdims=1>(w, a) }""",
    "softmax_weighted_mean": """g (float[6,40] x, float[6,40] v) => (float[6,1] y) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  w = Mul(p, v)  y = ReduceSum<keepdims=1>(w, a) }""",
    "softmax_weighted_variance": """g (float[6,40] x, float[6,40] v) => (float[6,1] y) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  w = Mul(p, v)  m = ReduceSum<keepdims=1>(w, a)
        d = Sub(v, m)  q = Mul(d, d)  z = Mul(p, q)  y = ReduceSum<keepdims=1>(z, a) }""",
    "temperature": """g (float[6,40] x) => (float[6,40] y) <float k = {0.7}> {
        s = Div(x, k)  y = Softmax<axis=-1>(s) }""",
    "softcap": """g (float[6,40] x, float[40,8] v) => (float[6,8] y) <float k = {5.0}> {
        a = Div(x, k)  b = Tanh(a)  c = Mul(b, k)  p = Softmax<axis=-1>(c)  y = MatMul(p, v) }""",
    "softmax1": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  s = Sub(x, m)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a)
        n = Neg(m)  o = Exp(n)  d = Add(t, o)  y = Div(e, d) }""",
    "sink": """g (float[6,40] x, float[6,1] sink, float[40,8] v) => (float[6,8] y)
        <int64[1] a = {-1}, int64[1] zero = {0}, int64[1] end = {40}, int64[1] one = {1}> {
        c = Concat<axis=-1>(x, sink)  p = Softmax<axis=-1>(c)  q = Slice(p, zero, end, one)  y = MatMul(q, v) }""",
    "sink_of_shifted_scores": """g (float[6,40] x, float[6,1] sink, float[40,8] v) => (float[6,8] y)
        <int64[1] a = {-1}, int64[1] zero = {0}, int64[1] end = {40}, int64[1] one = {1}> {
        c = Concat<axis=-1>(x, sink)  m = ReduceMax<keepdims=1>(c, a)  d = Sub(c, m)  p = Softmax<axis=-1>(d)
        q = Slice(p, zero, end, a, one)  y = MatMul(q, v) }""",
    "variance": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  y = ReduceMean<keepdims=1>(q, a) }""",
    "standard_deviation": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  v = ReduceMean<keepdims=1>(q, a)
        y = Sqrt(v) }""",
    "skewness": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}, float k = {3.0}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  c = Mul(q, d)
        v = ReduceMean<keepdims=1>(q, a)  s = ReduceMean<keepdims=1>(c, a)
        r = Sqrt(v)  r3 = Pow(r, k)  y = Div(s, r3) }""",
    "kurtosis": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  f = Mul(q, q)
        v = ReduceMean<keepdims=1>(q, a)  s = ReduceMean<keepdims=1>(f, a)  w = Mul(v, v)  y = Div(s, w) }""",
    "layer_norm": """g (float[6,40] x, float[40] gain, float[40] bias) => (float[6,40] y) {
        y = LayerNormalization<axis=-1>(x, gain, bias) }""",
    "rms_norm": """g (float[6,40] x, float[40] gain) => (float[6,40] y) <int64[1] a = {-1}, float e = {0.00001}> {
        q = Mul(x, x)  m = ReduceMean<keepdims=1>(q, a)  b = Add(m, e)  r = Sqrt(b)  n = Div(x, r)
        y = Mul(n, gain) }""",
    "rms_norm_linear": """g (float[6,40] x, float[40] gain, float[40,8] w) => (float[6,8] y)
        <int64[1] a = {-1}, float e = {0.00001}> {
        q = Mul(x, x)  m = ReduceMean<keepdims=1>(q, a)  b = Add(m, e)  r = Sqrt(b)  n = Div(x, r)
        s = Mul(n, gain)  y = MatMul(s, w) }""",
    "layer_norm_linear": """g (float[6,40] x, float[40,8] w) => (float[6,8] y)
        <int64[1] a = {-1}, float e = {0.00001}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  v = ReduceMean<keepdims=1>(q, a)
        b = Add(v, e)  r = Sqrt(b)  n = Div(d, r)  y = MatMul(n, w) }""",
    "batch_norm": """g (float[8,6,10,10] x) => (float[1,6,1,1] m, float[1,6,1,1] v, float[8,6,10,10] y)
        <int64[3] a = {0,2,3}, float eps = {0.00001}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  v = ReduceMean<keepdims=1>(q, a)
        e = Add(v, eps)  r = Sqrt(e)  y = Div(d, r) }""",
    "group_norm": """g (float[2,6,5,4] x) => (float[2,6,5,4] y)
        <int64[1] a = {-1}, int64[3] shape = {2, 3, 40}, int64[4] back = {2, 6, 5, 4}, float e = {0.00001}> {
        f = Reshape(x, shape)  m = ReduceMean<keepdims=1>(f, a)  d = Sub(f, m)  q = Mul(d, d)
        v = ReduceMean<keepdims=1>(q, a)  b = Add(v, e)  r = Sqrt(b)  n = Div(d, r)  y = Reshape(n, back) }""",
    "instance_norm": """g (float[2,3,5,8] x) => (float[2,3,5,8] y)
        <float[3] gain = {1.0, 2.0, 0.5}, float[3] bias = {0.0, 1.0, -1.0}> {
        y = InstanceNormalization(x, gain, bias) }""",
    "covariance": """g (float[6,40] x, float[6,40] z) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  n = ReduceMean<keepdims=1>(z, a)  d = Sub(x, m)  e = Sub(z, n)
        q = Mul(d, e)  y = ReduceMean<keepdims=1>(q, a) }""",
    "moment_of_inertia": """g (float[6,40] mass, float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        w = Abs(mass)  t = ReduceSum<keepdims=1>(w, a)  p = Mul(w, x)  s = ReduceSum<keepdims=1>(p, a)
        c = Div(s, t)  d = Sub(x, c)  q = Mul(d, d)  z = Mul(w, q)  y = ReduceSum<keepdims=1>(z, a) }""",
    "cosine_similarity": """g (float[6,40] x, float[6,40] z) => (float[6,1] y) <int64[1] a = {-1}> {
        q = Mul(x, x)  s = ReduceSum<keepdims=1>(q, a)  n = Sqrt(s)  u = Div(x, n)
        r = Mul(z, z)  t = ReduceSum<keepdims=1>(r, a)  o = Sqrt(t)  v = Div(z, o)
        w = Mul(u, v)  y = ReduceSum<keepdims=1>(w, a) }""",
    "l2_normalise_gemm": """g (float[6,40] x, float[40,8] w) => (float[6,8] y) <int64[1] a = {-1}> {
        q = Mul(x, x)  s = ReduceSum<keepdims=1>(q, a)  n = Sqrt(s)  u = Div(x, n)  y = MatMul(u, w) }""",
    "min_max_normalise": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        l = ReduceMin<keepdims=1>(x, a)  d = Sub(x, l)  h = ReduceMax<keepdims=1>(d, a)  y = Div(d, h) }""",
    "min_max_normalise_gemm": """g (float[6,40] x, float[40,8] w) => (float[6,8] y) <int64[1] a = {-1}> {
        l = ReduceMin<keepdims=1>(x, a)  h = ReduceMax<keepdims=1>(x, a)  r = Sub(h, l)
        d = Sub(x, l)  n = Div(d, r)  y = MatMul(n, w) }""",
    "absmax_scale_gemm": """g (float[6,40] x, float[40,8] w) => (float[6,8] y) <int64[1] a = {-1}> {
        b = Abs(x)  m = ReduceMax<keepdims=1>(b, a)  s = Div(x, m)  y = MatMul(s, w) }""",
    "quantise_gemm_int8": """g (float[6,40] x, float[40,8] w) => (float[6,8] y)
        <int64[1] a = {-1}, float k = {127.0}, float low = {-127.0}, float high = {127.0}> {
        b = Abs(x)  m = ReduceMax<keepdims=1>(b, a)  s = Div(m, k)  q = Div(x, s)  r = Round(q)
        c = Clip(r, low, high)  i = Cast<to=3>(c)  f = Cast<to=1>(i)  t = MatMul(f, w)  y = Mul(t, s) }""",
    "quantise_gemm_fp8": """g (float[6,40] x, float[40,8] w) => (float[6,8] y) <int64[1] a = {-1}, float k = {448.0}> {
        b = Abs(x)  m = ReduceMax<keepdims=1>(b, a)  s = Div(m, k)  q = Div(x, s)
        i = Cast<to=17>(q)  f = Cast<to=1>(i)  t = MatMul(f, w)  y = Mul(t, s) }""",
    "quantise_gemm_integer": """g (float[6,40] x, int8[40,8] w) => (float[6,8] y)
        <int64[1] a = {-1}, float k = {127.0}, float low = {-127.0}, float high = {127.0}> {
        b = Abs(x)  m = ReduceMax<keepdims=1>(b, a)  s = Div(m, k)  q = Div(x, s)  r = Round(q)
        c = Clip(r, low, high)  i = Cast<to=3>(c)  t = MatMulInteger(i, w)  f = Cast<to=1>(t)  y = Mul(f, s) }""",
    "quantise_per_token": """g (float[6,40] x) => (int8[6,40] y, float[6,1] s)
        <int64[1] a = {-1}, float k = {127.0}, float low = {-127.0}, float high = {127.0}> {
        b = Abs(x)  m = ReduceMax<keepdims=1>(b, a)  s = Div(m, k)  q = Div(x, s)  r = Round(q)
        c = Clip(r, low, high)  y = Cast<to=3>(c) }""",
    "quantise_per_tensor": """g (float[6,40] x, float[40,8] w) => (float[6,8] y)
        <float k = {127.0}, float low = {-127.0}, float high = {127.0}> {
        b = Abs(x)  m = ReduceMax<keepdims=0>(b)  s = Div(m, k)  q = Div(x, s)  r = Round(q)
        c = Clip(r, low, high)  t = MatMul(c, w)  y = Mul(t, s) }""",
    "geometric_mean_normalise": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        p = Exp(x)  l = Log(p)  m = ReduceMean<keepdims=1>(l, a)  e = Exp(m)  y = Div(p, e) }""",
    "geometric_mean_of_magnitudes": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        p = Abs(x)  l = Log(p)  m = ReduceMean<keepdims=1>(l, a)  e = Exp(m)  y = Div(x, e) }""",
    "harmonic_mean_normalise": """g (float[6,40] x) => (float[6,40] y) <int64[1] a = {-1}> {
        p = Exp(x)  i = Reciprocal(p)  s = ReduceMean<keepdims=1>(i, a)  y = Mul(p, s) }""",
    "count_of_max": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  q = Equal(x, m)  c = Cast<to=1>(q)  y = ReduceSum<keepdims=1>(c, a) }""",
    "two_cascades": """g (float[6,40] x, float[40,8] v) => (float[6,8] y, float[6,1] z) <int64[1] a = {-1}> {
        p = Softmax<axis=-1>(x)  y = MatMul(p, v)
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  z = ReduceMean<keepdims=1>(q, a) }""",
    "three_deep": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  s = Sub(x, m)  e = Exp(s)  t = ReduceSum<keepdims=1>(e, a)
        p = Div(e, t)  w = Mul(p, x)  u = ReduceSum<keepdims=1>(w, a)  d = Sub(x, u)  q = Mul(d, d)
        z = Mul(p, q)  y = ReduceSum<keepdims=1>(z, a) }""",
    "mean_absolute_deviation": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  b = Abs(d)  y = ReduceMean<keepdims=1>(b, a) }""",
    "tanh_of_difference": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMax<keepdims=1>(x, a)  d = Sub(x, m)  b = Tanh(d)  y = ReduceSum<keepdims=1>(b, a) }""",
    "gaussian_of_difference": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  d = Sub(x, m)  q = Mul(d, d)  n = Neg(q)  e = Exp(n)
        y = ReduceSum<keepdims=1>(e, a) }""",
    "select_above_mean": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}> {
        m = ReduceMean<keepdims=1>(x, a)  q = Greater(x, m)  c = Cast<to=1>(q)  w = Mul(c, x)
        y = ReduceSum<keepdims=1>(w, a) }""",
    "gate_of_channels": """g (float[1,16,40] x, float[1,40] gate, float[40,1] w) => (float[1,16,40] y, float[1,16,1] z)
        <int64[1] a = {-1}> { p = Softmax<axis=-1>(gate)  y = Mul(x, p)  z = MatMul(y, w) }""",
    "slot_attention": """g (float[2,24,16] q, float[2,24,16] kt, float[2,24,8] v) => (float[2,24,8] y)
        <int64[1] a = {-1}, float e = {0.000001}> {
        k = Transpose<perm=[0,2,1]>(kt)  s = MatMul(q, k)  p = Softmax<axis=1>(s)  r = Add(p, e)
        t = ReduceSum<keepdims=1>(r, a)  w = Div(r, t)  y = MatMul(w, v) }""",
    "relative_shift": """g (float[2,12,16] q, float[2,16,12] k, float[2,16,12] r, float[2,12,8] v) => (float[2,12,8] y)
        <int64[6] left = {0,0,1,0,0,0}, int64[3] rows = {2,13,12}, int64[1] one = {1}, int64[1] end = {13}> {
        n = MatMul(q, k)  f = MatMul(q, r)  p = Pad(f, left)  t = Reshape(p, rows)  z = Slice(t, one, end, one)
        s = Add(n, z)  w = Softmax(s)  y = MatMul(w, v) }""",
    "attention_of_normalised_queries": """g (float[2,20,8] q, float[2,8,20] k, float[2,20,8] v) => (float[2,20,8] y)
        <int64[1] a = {-1}, float e = {0.00001}> {
        b = Mul(q, q)  m = ReduceMean<keepdims=1>(b, a)  c = Add(m, e)  d = Sqrt(c)  n = Div(q, d)
        s = MatMul(n, k)  w = Softmax(s)  y = MatMul(w, v) }""",
    "other_axis_between": """g (float[6,40] x) => (float[6,1] y) <int64[1] a = {-1}, int64[1] b = {0}> {
        m = ReduceMax<keepdims=1>(x, a)  c = ReduceSum<keepdims=1>(m, b)  d = Sub(x, c)
        y = ReduceSum<keepdims=1>(d, a) }""",
}


def cascade(name: str) -> ModelProto:
    """One graph of :data:`GRAPHS` as a checked model.

    Raises:
        KeyError: no such graph.
    """
    return parsed(GRAPHS[name], OPSETS.get(name, 18))


def parsed(graph: str, opset: int = 18) -> ModelProto:
    """A graph in ONNX's text form as a checked model."""
    from onnx import checker, parser

    model = parser.parse_model(HEAD.format(opset=opset) + graph)
    checker.check_model(model)
    return model
