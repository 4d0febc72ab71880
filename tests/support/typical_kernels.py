"""Kernels as found in tutorials and libraries, in plain NKI, which users are likely to time.

Each accepts TensorSpecs of a size from `CASES`; `size` is the number of tiles of 128 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from trninfer.simulator import TensorSpec

P = 128


def sbuf(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def loaded(src: Any) -> Any:
    tile = sbuf(*src.shape, dtype=src.dtype)
    nisa.dma_copy(dst=tile, src=src)
    return tile


def output(like: Any, *shape: int) -> Any:
    return nl.ndarray(shape or like.shape, dtype=like.dtype, buffer=nl.shared_hbm)


@nki.jit
def elementwise(a, b):
    """Compute gelu(a + b) * 0.5, without specifying engines."""
    out = output(a)
    for t in nl.affine_range(a.shape[0] // P):
        rows = nl.ds(t * P, P)
        total = sbuf(P, a.shape[1])
        nisa.tensor_tensor(dst=total, data1=loaded(a[rows, :]), data2=loaded(b[rows, :]), op=nl.add)
        nisa.activation(dst=total, op=nl.gelu, data=total)
        result = sbuf(P, a.shape[1], dtype=a.dtype)
        nisa.tensor_scalar(dst=result, data=total, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=out[rows, :], src=result)
    return out


@nki.jit
def rmsnorm(x, weight):
    """Compute x / rms(x) * weight by rows."""
    out = output(x)
    scale = sbuf(P, x.shape[1])
    nisa.dma_copy(dst=scale, src=weight.ap(pattern=[[0, P], [1, x.shape[1]]], offset=0))
    for t in nl.affine_range(x.shape[0] // P):
        tile = loaded(x[t * P : t * P + P, :])
        squares, total = sbuf(P, x.shape[1]), sbuf(P, 1)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
        inverse = sbuf(P, 1)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=total, scale=1.0 / x.shape[1])
        normal = sbuf(P, x.shape[1])
        nisa.tensor_scalar(dst=normal, data=tile, op0=nl.multiply, operand0=inverse)
        result = sbuf(P, x.shape[1], dtype=x.dtype)
        nisa.tensor_tensor(dst=result, data1=normal, data2=scale, op=nl.multiply)
        nisa.dma_copy(dst=out[t * P : t * P + P, :], src=result)
    return out


@nki.jit
def layernorm(x):
    """Compute (x - mean) / sqrt(variance) by rows, with the Vector Engine's statistics."""
    out = output(x)
    for t in nl.affine_range(x.shape[0] // P):
        tile = loaded(x[t * P : t * P + P, :])
        pieces = x.shape[1] // 512
        stats, moments = sbuf(P, 6 * pieces), sbuf(P, 2)
        for k in range(pieces):
            nisa.bn_stats(dst=stats[:, 6 * k : 6 * k + 6], data=tile[:, 512 * k : 512 * k + 512])
        nisa.bn_aggr(dst=moments, data=stats)
        inverse = sbuf(P, 1)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=moments[:, 1:2])
        result = sbuf(P, x.shape[1], dtype=x.dtype)
        nisa.tensor_scalar(
            dst=result, data=tile, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=inverse
        )
        nisa.dma_copy(dst=out[t * P : t * P + P, :], src=result)
    return out


@nki.jit
def softmax(x):
    out = output(x)
    for t in nl.affine_range(x.shape[0] // P):
        tile = loaded(x[t * P : t * P + P, :])
        largest, total, inverse = sbuf(P, 1), sbuf(P, 1), sbuf(P, 1)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
        shifted = sbuf(P, x.shape[1])
        nisa.tensor_scalar(dst=shifted, data=tile, op0=nl.subtract, operand0=largest)
        exponentials = sbuf(P, x.shape[1])
        nisa.activation_reduce(dst=exponentials, op=nl.exp, data=shifted, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=inverse, data=total)
        result = sbuf(P, x.shape[1], dtype=x.dtype)
        nisa.tensor_scalar(dst=result, data=exponentials, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[t * P : t * P + P, :], src=result)
    return out


@nki.jit
def gemv(token, weight):
    """Multiply a token [K, 1] by a weight [K, N]: a projection during decoding."""
    columns = weight.shape[1]
    out = output(weight, 1, columns)
    tiles = weight.shape[0] // P
    vector = sbuf(P, tiles, dtype=token.dtype)
    nisa.dma_copy(dst=vector, src=token.ap(pattern=[[1, P], [P, tiles]], offset=0))
    sums = []
    for _ in range(columns // 512):
        sums.append(psum(1, 512))
    for k in nl.affine_range(tiles):
        rows = loaded(weight[k * P : k * P + P, :])
        for n in nl.affine_range(columns // 512):
            moving = rows[:, n * 512 : n * 512 + 512]
            nisa.nc_matmul(dst=sums[n], stationary=vector[:, k : k + 1], moving=moving, accumulate=k > 0)
    for n in nl.affine_range(columns // 512):
        result = sbuf(1, 512, dtype=weight.dtype)
        nisa.tensor_copy(dst=result, src=sums[n])
        nisa.dma_copy(dst=out[:, n * 512 : n * 512 + 512], src=result)
    return out


@nki.jit
def matmul(left, right):
    """Multiply the transpose of left [K, M] by right [K, N], loading both once."""
    (depth, rows), columns = left.shape, right.shape[1]
    out = output(left, rows, columns)
    stationary, moving = [], []
    for k in range(depth // P):
        stationary.append(loaded(left[k * P : k * P + P, :]))
        moving.append(loaded(right[k * P : k * P + P, :]))
    for m in nl.affine_range(rows // P):
        for n in nl.affine_range(columns // 512):
            sums = psum(P, 512)
            for k in range(depth // P):
                block = stationary[k][:, m * P : m * P + P]
                nisa.nc_matmul(dst=sums, stationary=block, moving=moving[k][:, n * 512 : n * 512 + 512])
            result = sbuf(P, 512, dtype=left.dtype)
            nisa.tensor_copy(dst=result, src=sums)
            nisa.dma_copy(dst=out[m * P : m * P + P, n * 512 : n * 512 + 512], src=result)
    return out


@nki.jit
def transpose(a):
    """Transpose [N, 128] to [128, N] on the Tensor Engine."""
    out = output(a, P, a.shape[0])
    for t in nl.affine_range(a.shape[0] // P):
        turned = psum(P, P, dtype=a.dtype)
        nisa.nc_transpose(dst=turned, data=loaded(a[t * P : t * P + P, :]))
        result = sbuf(P, P, dtype=a.dtype)
        nisa.tensor_copy(dst=result, src=turned)
        nisa.dma_copy(dst=out[:, t * P : t * P + P], src=result)
    return out


@nki.jit
def transpose_by_dma(a):
    """Transpose with DMAs."""
    out = output(a, P, a.shape[0])
    for t in nl.affine_range(a.shape[0] // P):
        result = sbuf(P, P, dtype=a.dtype)
        nisa.dma_transpose(dst=result, src=a[t * P : t * P + P, :])
        nisa.dma_copy(dst=out[:, t * P : t * P + P], src=result)
    return out


def _softmax_rows(scores, width):
    """Compute exp(scores - max) as bfloat16, and the reciprocal of its sum, by rows."""
    rows = scores.shape[0]
    largest, total, inverse = sbuf(rows, 1), sbuf(rows, 1), sbuf(rows, 1)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
    exponentials = sbuf(rows, width, dtype=nl.bfloat16)
    nisa.activation_reduce(dst=exponentials, op=nl.exp, data=scores, bias=largest, reduce_op=nl.add, reduce_res=total)
    nisa.reciprocal(dst=inverse, data=total)
    return exponentials, inverse


@nki.jit
def attention_prefill(q, k, v):
    """Compute softmax(q k) v for one head without a mask: q and k [d, S], v [S, d], bfloat16."""
    length = q.shape[1]
    out = output(v)
    queries, keys = loaded(q), loaded(k)
    values = []
    for t in range(length // P):
        values.append(loaded(v[t * P : t * P + P, :]))
    for s in nl.affine_range(length // P):
        scores = sbuf(P, length)
        for n in range(length // 512):
            part = psum(P, 512)
            nisa.nc_matmul(dst=part, stationary=queries[:, s * P : s * P + P], moving=keys[:, n * 512 : n * 512 + 512])
            nisa.tensor_copy(dst=scores[:, n * 512 : n * 512 + 512], src=part)
        exponentials, inverse = _softmax_rows(scores, length)
        sums = psum(P, P)
        for t in range(length // P):
            turned = psum(P, P, dtype=nl.bfloat16) if v.dtype == "bfloat16" else psum(P, P)
            nisa.nc_transpose(dst=turned, data=exponentials[:, t * P : t * P + P])
            weights = sbuf(P, P, dtype=nl.bfloat16)
            nisa.tensor_copy(dst=weights, src=turned)
            nisa.nc_matmul(dst=sums, stationary=weights, moving=values[t], accumulate=t > 0)
        result = sbuf(P, P, dtype=v.dtype)
        nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[s * P : s * P + P, :], src=result)
    return out


@nki.jit
def attention_decode(q, k, v):
    """Compute attention of a new token's heads q [d, 8] over a cache k [d, S], v [S, d]."""
    heads, length = q.shape[1], k.shape[1]
    out = output(v, heads, P)
    queries = loaded(q)
    scores = sbuf(heads, length)
    for n in nl.affine_range(length // 512):
        part = psum(heads, 512)
        keys = loaded(k[:, n * 512 : n * 512 + 512])
        nisa.nc_matmul(dst=part, stationary=queries, moving=keys)
        nisa.tensor_copy(dst=scores[:, n * 512 : n * 512 + 512], src=part)
    exponentials, inverse = _softmax_rows(scores, length)
    sums = psum(heads, P)
    for t in range(length // P):
        turned = psum(P, heads, dtype=nl.bfloat16)
        nisa.nc_transpose(dst=turned, data=exponentials[:, t * P : t * P + P], engine=nisa.engine.tensor)
        weights = sbuf(P, heads, dtype=nl.bfloat16)
        nisa.tensor_copy(dst=weights, src=turned)
        values = loaded(v[t * P : t * P + P, :])
        nisa.nc_matmul(dst=sums, stationary=weights, moving=values, accumulate=t > 0)
    result = sbuf(heads, P, dtype=v.dtype)
    nisa.tensor_scalar(dst=result, data=sums, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def embedding(table, tokens):
    """Gather rows of a table at indices known only at run time, 128 at a time."""
    out = output(table, tokens.shape[0], table.shape[1])
    for t in nl.affine_range(tokens.shape[0] // P):
        index = loaded(tokens[t * P : t * P + P, :])
        rows = sbuf(P, table.shape[1], dtype=table.dtype)
        source = table.ap(pattern=[[table.shape[1], P], [1, table.shape[1]]], offset=0, vector_offset=index)
        nisa.dma_copy(dst=rows, src=source)
        nisa.dma_copy(dst=out[t * P : t * P + P, :], src=rows)
    return out


@nki.jit
def expert(hidden, weights, chosen):
    """Multiply the selected experts' weights [E, 128, N], at addresses known only at run time, by hidden [128, 1]."""
    columns = weights.shape[2]
    out = output(weights, 1, columns)
    vector, index = loaded(hidden), loaded(chosen)
    sums = psum(1, columns)
    for e in range(chosen.shape[1]):
        tile = sbuf(P, columns, dtype=weights.dtype)
        place = index.ap(pattern=[[chosen.shape[1], 1], [1, 1]], offset=e)
        source = weights.ap(pattern=[[columns, P], [1, columns]], offset=0, scalar_offset=place, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source)
        nisa.nc_matmul(dst=sums, stationary=vector, moving=tile, accumulate=e > 0)
    result = sbuf(1, columns, dtype=weights.dtype)
    nisa.tensor_copy(dst=result, src=sums)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def scan(decay, data):
    """Compute a linear recurrence along each row, as in state space models."""
    out = output(data)
    for t in nl.affine_range(data.shape[0] // P):
        rows = nl.ds(t * P, P)
        result = sbuf(P, data.shape[1])
        nisa.tensor_tensor_scan(result, loaded(decay[rows, :]), loaded(data[rows, :]), 0.0, nl.multiply, nl.add)
        nisa.dma_copy(dst=out[rows, :], src=result)
    return out


@nki.jit
def largest(x):
    """Find the eight largest elements of each row and their positions."""
    out = nl.ndarray((x.shape[0], 8), dtype=nl.uint32, buffer=nl.shared_hbm)
    for t in nl.affine_range(x.shape[0] // P):
        tile = loaded(x[t * P : t * P + P, :])
        values, places = sbuf(P, 8), sbuf(P, 8, dtype=nl.uint32)
        nisa.max8(dst=values, src=tile)
        nisa.nc_find_index8(dst=places, data=tile, vals=values)
        nisa.dma_copy(dst=out[t * P : t * P + P, :], src=places)
    return out


@nki.jit
def looped(x):
    """Double tiles in a device loop."""
    out = output(x)

    def body(t):
        row = sbuf(P, x.shape[2], dtype=x.dtype)
        nisa.dma_copy(dst=row, src=x.select(0, t))
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out.select(0, t), src=row)

    nl.fori_loop(0, x.shape[0], body)
    return out


def _f32(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float32")


def _b16(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "bfloat16")


Case = tuple[Any, Callable[[int], tuple[TensorSpec, ...]]]

CASES: dict[str, Case] = {
    "elementwise": (elementwise, lambda n: (_b16(n * P, 1024), _b16(n * P, 1024))),
    "rmsnorm": (rmsnorm, lambda n: (_b16(n * P, 2048), _f32(1, 2048))),
    "layernorm": (layernorm, lambda n: (_f32(n * P, 1024),)),
    "softmax": (softmax, lambda n: (_f32(n * P, 1024),)),
    "gemv": (gemv, lambda n: (_b16(n * P, 1), _b16(n * P, 2048))),
    "matmul": (matmul, lambda n: (_b16(n * P, 512), _b16(n * P, 1024))),
    "transpose": (transpose, lambda n: (_b16(n * P, P),)),
    "transpose_by_dma": (transpose_by_dma, lambda n: (_b16(n * P, P),)),
    "attention_prefill": (attention_prefill, lambda n: (_b16(P, n * 512), _b16(P, n * 512), _b16(n * 512, P))),
    "attention_decode": (attention_decode, lambda n: (_b16(P, 8), _b16(P, n * 512), _b16(n * 512, P))),
    "embedding": (embedding, lambda n: (_b16(4096, 512), TensorSpec((n * P, 1), "int32"))),
    "expert": (expert, lambda n: (_b16(P, 1), _b16(64, P, 512), TensorSpec((1, n), "int32"))),
    "scan": (scan, lambda n: (_f32(n * P, 512), _f32(n * P, 512))),
    "largest": (largest, lambda n: (_f32(n * P, 512),)),
    "looped": (looped, lambda n: (_f32(n, P, 512),)),
}
