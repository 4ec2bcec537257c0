"""TileLang programs whose emitted CUDA is kept beside this file; ``generate.py`` writes it."""

from typing import Any

import tilelang.language as T

Program = Any
LOG2E = 1.44269504


def attention(
    queries: int,
    keys: int,
    width: int,
    *,
    heads: int = 1,
    tile: tuple[int, int] = (64, 64),
    threads: int = 128,
    stages: int = 2,
    dtype: str = "float16",
) -> Program:
    """softmax(Q K^T / sqrt(width)) V in one pass, with masked tails."""
    scale = width**-0.5 * LOG2E
    rows, columns = tile

    @T.prim_func
    def attention(
        Q: T.Tensor((heads, queries, width), dtype),
        K: T.Tensor((heads, keys, width), dtype),
        V: T.Tensor((heads, keys, width), dtype),
        Out: T.Tensor((heads, queries, width), dtype),
    ):
        with T.Kernel(T.ceildiv(queries, rows), heads, threads=threads) as (bx, by):
            Qs, Os = T.alloc_shared((rows, width), dtype), T.alloc_shared((rows, width), dtype)
            Ks, Vs = T.alloc_shared((columns, width), dtype), T.alloc_shared((columns, width), dtype)
            S, P = T.alloc_fragment((rows, columns), "float32"), T.alloc_fragment((rows, columns), dtype)
            out = T.alloc_fragment((rows, width), "float32")
            top, before = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            factor, part = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(Q[by, bx * rows : (bx + 1) * rows, :], Qs)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(keys, columns), num_stages=stages):
                T.copy(K[by, k * columns : (k + 1) * columns, :], Ks)
                for i, j in T.Parallel(rows, columns):
                    S[i, j] = T.if_then_else(k * columns + j < keys, T.cast(0, "float32"), -T.infinity("float32"))
                T.gemm(Qs, Ks, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(S, top, dim=1, clear=False)
                for i in T.Parallel(rows):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(rows, columns):
                    S[i, j] = T.exp2(S[i, j] * scale - top[i] * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(rows, width):
                    out[i, j] *= factor[i]
                T.copy(V[by, k * columns : (k + 1) * columns, :], Vs)
                T.gemm(P, Vs, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, width):
                out[i, j] /= total[i]
            T.copy(out, Os)
            T.copy(Os, Out[by, bx * rows : (bx + 1) * rows, :])

    return attention


def split_attention(heads: int, queries: int, keys: int, width: int, splits: int, columns: int = 64) -> Program:
    """Attention in several segments of the keys, whose unnormalised partial results a second kernel merges."""
    scale = width**-0.5 * LOG2E
    segment = keys // splits

    @T.prim_func
    def split_attention(
        Q: T.Tensor((heads, queries, width), "float16"),
        K: T.Tensor((heads, keys, width), "float16"),
        V: T.Tensor((heads, keys, width), "float16"),
        Outs: T.Tensor((heads, splits, queries, width), "float32"),
        Tops: T.Tensor((heads, splits, queries), "float32"),
        Totals: T.Tensor((heads, splits, queries), "float32"),
        Out: T.Tensor((heads, queries, width), "float16"),
    ):
        with T.Kernel(splits, heads, threads=128) as (bs, by):
            Qs = T.alloc_shared((queries, width), "float16")
            Ks, Vs = T.alloc_shared((columns, width), "float16"), T.alloc_shared((columns, width), "float16")
            S, P = T.alloc_fragment((queries, columns), "float32"), T.alloc_fragment((queries, columns), "float16")
            out = T.alloc_fragment((queries, width), "float32")
            top, before = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            factor, part = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            total = T.alloc_fragment((queries,), "float32")
            T.copy(Q[by, 0:queries, :], Qs)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(segment // columns, num_stages=2):
                T.copy(K[by, bs * segment + k * columns : bs * segment + (k + 1) * columns, :], Ks)
                T.clear(S)
                T.gemm(Qs, Ks, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(S, top, dim=1, clear=False)
                for i in T.Parallel(queries):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(queries, columns):
                    S[i, j] = T.exp2(S[i, j] * scale - top[i] * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(queries):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(queries, width):
                    out[i, j] *= factor[i]
                T.copy(V[by, bs * segment + k * columns : bs * segment + (k + 1) * columns, :], Vs)
                T.gemm(P, Vs, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, Outs[by, bs, 0:queries, :])
            T.copy(top, Tops[by, bs, 0:queries])
            T.copy(total, Totals[by, bs, 0:queries])
        with T.Kernel(heads, threads=128) as by:
            top, total = T.alloc_fragment((queries,), "float32"), T.alloc_fragment((queries,), "float32")
            out = T.alloc_fragment((queries, width), "float32")
            T.fill(top, -T.infinity("float32"))
            T.fill(total, 0)
            T.fill(out, 0)
            for s in T.serial(splits):
                for i in T.Parallel(queries):
                    top[i] = T.max(top[i], Tops[by, s, i])
            for s in T.serial(splits):
                for i in T.Parallel(queries):
                    total[i] += Totals[by, s, i] * T.exp2((Tops[by, s, i] - top[i]) * scale)
                for i, j in T.Parallel(queries, width):
                    out[i, j] += Outs[by, s, i, j] * T.exp2((Tops[by, s, i] - top[i]) * scale)
            for i, j in T.Parallel(queries, width):
                Out[by, i, j] = out[i, j] / total[i]

    return split_attention


def product(
    rows: int,
    columns: int,
    inner: int,
    *,
    dtype: str = "float16",
    out: str = "float32",
    sums: str = "float32",
    tile: tuple[int, int, int] = (128, 128, 64),
    stages: int = 3,
    threads: int = 128,
    a_transposed: bool = False,
    b_transposed: bool = False,
    staged: bool = False,
) -> Program:
    """A B, with either operand stored transposed; ``staged`` writes the result through shared memory."""
    m, n, k = tile

    @T.prim_func
    def product(
        A: T.Tensor((inner, rows) if a_transposed else (rows, inner), dtype),
        B: T.Tensor((columns, inner) if b_transposed else (inner, columns), dtype),
        C: T.Tensor((rows, columns), out),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=threads) as (bx, by):
            As = T.alloc_shared((k, m) if a_transposed else (m, k), dtype)
            Bs = T.alloc_shared((n, k) if b_transposed else (k, n), dtype)
            Cf = T.alloc_fragment((m, n), sums)
            T.clear(Cf)
            for step in T.Pipelined(T.ceildiv(inner, k), num_stages=stages):
                if a_transposed:
                    T.copy(A[step * k, by * m], As)
                else:
                    T.copy(A[by * m, step * k], As)
                if b_transposed:
                    T.copy(B[bx * n, step * k], Bs)
                else:
                    T.copy(B[step * k, bx * n], Bs)
                T.gemm(As, Bs, Cf, transpose_A=a_transposed, transpose_B=b_transposed)
            if staged:
                Cs = T.alloc_shared((m, n), out)
                T.copy(Cf, Cs)
                T.copy(Cs, C[by * m, bx * n])
            else:
                T.copy(Cf, C[by * m, bx * n])

    return product


def quantised_product(rows: int, columns: int, inner: int) -> Program:
    """Rows scaled to e4m3 by their largest magnitude, then multiplied: two passes over a block of rows."""
    m, n, k = 64, 64, 64

    @T.prim_func
    def quantised_product(
        A: T.Tensor((rows, inner), "float16"),
        B: T.Tensor((columns, inner), "float8_e4m3fn"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=128) as (bx, by):
            As, Bs = T.alloc_shared((m, k), "float16"), T.alloc_shared((n, k), "float8_e4m3fn")
            Af, Aq = T.alloc_fragment((m, k), "float16"), T.alloc_shared((m, k), "float8_e4m3fn")
            magnitude, part = T.alloc_fragment((m,), "float16"), T.alloc_fragment((m,), "float16")
            scale = T.alloc_fragment((m,), "float32")
            Cf = T.alloc_fragment((m, n), "float32")
            T.fill(magnitude, 0)
            for step in T.serial(inner // k):
                T.copy(A[by * m, step * k], As)
                T.copy(As, Af)
                T.reduce_absmax(Af, part, dim=1)
                for i in T.Parallel(m):
                    magnitude[i] = T.max(magnitude[i], part[i])
            for i in T.Parallel(m):
                scale[i] = T.max(T.cast(magnitude[i], "float32"), 1e-12) / 448.0
            T.clear(Cf)
            for step in T.serial(inner // k):
                T.copy(A[by * m, step * k], As)
                T.copy(B[bx * n, step * k], Bs)
                T.copy(As, Af)
                for i, j in T.Parallel(m, k):
                    Aq[i, j] = T.cast(T.cast(Af[i, j], "float32") / scale[i], "float8_e4m3fn")
                T.gemm(Aq, Bs, Cf, transpose_B=True)
            for i, j in T.Parallel(m, n):
                C[by * m + i, bx * n + j] = Cf[i, j] * scale[i]

    return quantised_product


def layer_norm(rows: int, width: int, block: int = 4, dtype: str = "bfloat16") -> Program:
    """(x - mean) / sqrt(variance + eps) * gain, a few rows in a block of 128 threads, tails masked."""
    padded = 1 << (width - 1).bit_length()

    @T.prim_func
    def layer_norm(X: T.Tensor((rows, width), dtype), G: T.Tensor((width,), dtype), Y: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x = T.alloc_fragment((block, padded), "float32")
            square = T.alloc_fragment((block, padded), "float32")
            first, second = T.alloc_fragment((block,), "float32"), T.alloc_fragment((block,), "float32")
            for i, j in T.Parallel(block, padded):
                if bx * block + i < rows and j < width:
                    x[i, j] = T.cast(X[bx * block + i, j], "float32")
                else:
                    x[i, j] = 0
            T.reduce_sum(x, first, dim=1)
            for i, j in T.Parallel(block, padded):
                square[i, j] = T.if_then_else(
                    j < width, (x[i, j] - first[i] / width) * (x[i, j] - first[i] / width), T.cast(0, "float32")
                )
            T.reduce_sum(square, second, dim=1)
            for i, j in T.Parallel(block, padded):
                if bx * block + i < rows and j < width:
                    Y[bx * block + i, j] = T.cast(
                        (x[i, j] - first[i] / width) * T.rsqrt(second[i] / width + 1e-5) * T.cast(G[j], "float32"),
                        dtype,
                    )

    return layer_norm


def column_sums(rows: int, width: int) -> Program:
    """Sums of the columns: blocks of rows add their part to global memory atomically."""

    @T.prim_func
    def column_sums(X: T.Tensor((rows, width), "float32"), Y: T.Tensor((width,), "float32")):
        with T.Kernel(T.ceildiv(rows, 32), threads=128) as bx:
            x, part = T.alloc_fragment((32, width), "float32"), T.alloc_fragment((width,), "float32")
            T.copy(X[bx * 32, 0], x)
            T.reduce_sum(x, part, dim=0)
            for j in T.Parallel(width):
                T.atomic_add(Y[j], part[j])

    return column_sums
