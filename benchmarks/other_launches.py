"""Launches of kernels by other authors: the shapes, and the parameters of each variant."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from trninfer.benchmarks.kernels import moe_fused, moe_fused_fp8
from trninfer.benchmarks.kernels.attention_decode import attention_decode
from trninfer.benchmarks.kernels.attention_flash_decode import attention_flash_decode
from trninfer.benchmarks.kernels.attention_phases import attention_fused, attention_phases
from trninfer.benchmarks.kernels.attention_prefill import attention_prefill
from trninfer.benchmarks.kernels.attention_tuned_decode import Version, attention_tuned_decode
from trninfer.benchmarks.kernels.autotuned import double_matmul, matmul_accumulated, matmul_preloaded
from trninfer.benchmarks.kernels.moe import moe_sparse
from trninfer.simulator import TensorSpec

_KEYS: dict[str, Any] = {"transposed_keys": True, "hidden_first": True}
_ROWS: dict[str, Any] = {"gate_up_by": "row", "down_by": "row"}
_FP8 = moe_fused_fp8.Version(scales="at once", all_first=True, padded_first=True)
_HARDWARE = Version(hardware=True, masks_first=True)

# Arguments of the kernels other than arrays, keyed by row.
PARAMETERS: dict[str, dict[str, Any]] = {
    "o01": {},
    "o02": {},
    "o03": {"gate_up_by": "row"},
    "o04": {"group": 4},
    "o05": {"routing_at_once": True},
    "o06": {"gate_up_by": "row", "group": 4},
    "o07": _ROWS,
    "o08": {"gate_up_by": "moving"},
    "o09": {**_ROWS, "group": 4},
    "o10": {"gate_up_by": "rows first", "down_by": "row"},
    "o11": {**_ROWS, "hidden_at_once": True},
    "o12": {},
    "o13": {"transposed_keys": True},
    "o14": {**_KEYS, "softmax": "columns"},
    "o15": {**_KEYS, "softmax": "columns", "transposed_weights": True},
    "o16": {**_KEYS, "softmax": "whole", "transposed_weights": True},
    "o17": {**_KEYS, "softmax": "whole in tiles", "transposed_weights": True, "cache": True},
    "o18": {"packed": False},
    "o19": {"packed": True},
    "o20": {"version": Version()},
    "o21": {"version": _HARDWARE},
    "o22": {"version": replace(_HARDWARE, keys_by_dma=True)},
    "o23": {"version": replace(_HARDWARE, spread_by_dma=True)},
    "o24": {"version": Version(masked=False, queries_first=False, outputs_first=True)},
    "o25": {"version": Version(queries_first=False, outputs_first=True, shifted=False, one_pass=True)},
    "o26": {"version": Version(outputs_first=True, keys_by_dma=True, shifted=False)},
    "o27": {"version": moe_fused.Version(sums="apart")},
    "o28": {"version": moe_fused.Version(wave=2, buffers=2, sums="expert")},
    "o29": {"version": moe_fused.Version(wave=2, sums="expert")},
    "o30": {"version": moe_fused.Version(sums="zeroed after")},
    "o31": {"version": moe_fused.Version(router_batch=8, router_static=True)},
    "o32": {"version": moe_fused.Version(router_batch=16, router_static=True, turned_by_dma=True)},
    "o33": {"version": moe_fused.Version(wave=8, buffers=8, router_batch=16, router_static=True)},
    "o34": {"version": moe_fused_fp8.Version()},
    "o35": {"version": moe_fused_fp8.Version(scales="joined")},
    "o36": {"version": moe_fused_fp8.Version(scales="at once", all_first=True)},
    "o37": {"version": _FP8},
    "o38": {"version": _FP8},
    "o39": {"version": replace(_FP8, hardware="scales")},
    "o40": {"version": replace(_FP8, hardware="all", packed=True)},
    "o43": {},
    "o44": {"lhs_transposed": False},
    "o45": {"lhs_transposed": True},
    "o46": {},
}
_MATMULS = {"o43": matmul_accumulated, "o44": matmul_preloaded, "o45": matmul_preloaded, "o46": double_matmul}
_FLOAT32 = ("p03", "p04", "p07", "p08")
_MASKED = ("o12",)  # rows whose kernel loads a mask


def build(row_id: str, kernel: str, shapes: str) -> tuple[Any, tuple[TensorSpec, ...], dict[str, Any]]:
    """Return the kernel of a row, its arguments and its parameters."""
    if row_id.startswith("p"):
        length = int(shapes.removesuffix("]").rpartition(",")[2])
        dtype = "float32" if row_id in _FLOAT32 else "bfloat16"
        attention = attention_fused if "fused" in kernel else attention_phases
        return attention, (TensorSpec((128, length), dtype),) * 3, {"as_compiled": True}
    size = {name: int(value) for name, value in re.findall(r"\b([A-Za-z]+(?:_prior)?)(\d+)", shapes)}
    parameters = PARAMETERS[row_id]
    if row_id in _MATMULS:
        return _MATMULS[row_id], (_narrow(2048, 2048),) * (3 if "double" in kernel else 2), parameters
    if row_id in ("o18", "o19"):
        return attention_flash_decode, _cached(size), parameters
    if isinstance(parameters.get("version"), moe_fused.Version):
        return moe_fused.moe_fused[2], _fused(size), parameters
    if isinstance(parameters.get("version"), moe_fused_fp8.Version):
        return moe_fused_fp8.moe_fused_fp8[2], _fused_fp8(size, row_id), parameters
    if "version" in parameters:
        cached = _cached(size)
        wo = _narrow(size["Hq"] * size["d"], size["H"])
        return attention_tuned_decode, (*cached[:4], wo, *cached[4:]), parameters
    if "MoE" in kernel:
        return moe_sparse, _moe(size), parameters
    if "decode" in kernel:
        return attention_decode, _decode(size), parameters
    arguments = _prefill(size, transposed=bool(parameters.get("transposed_weights")))
    if row_id in _MASKED:
        arguments += (TensorSpec((size["S"], size["S"]), "float32"),)
    return attention_prefill, arguments, parameters


def _narrow(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "bfloat16")


def _moe(size: dict[str, int]) -> tuple[TensorSpec, ...]:
    features, inner, experts, chosen = (size[name] for name in "HIEK")
    return (
        _narrow(1, features),
        _narrow(experts, features, 2 * inner),
        _narrow(experts, inner, features),
        TensorSpec((1, chosen), "int32"),
        TensorSpec((1, chosen), "float32"),
    )


def _fused(size: dict[str, int]) -> tuple[TensorSpec, ...]:
    features, inner, experts = (size[name] for name in "HIE")
    return (
        _narrow(1, 1, features),
        _narrow(1, features),
        _narrow(features, experts),
        _narrow(experts, features, 2 * inner),
        _narrow(experts, inner, features),
    )


def _fused_fp8(size: dict[str, int], row_id: str) -> tuple[Any, ...]:
    features, inner, experts = (size[name] for name in "HIE")
    columns = features // 4 if row_id in ("o34", "o35") else features  # only the features that have scales
    gates = [TensorSpec((experts, features, 2 * inner), "int8"), TensorSpec((experts, 2 * inner), "float32")]
    if PARAMETERS[row_id]["version"].packed:
        gates = [TensorSpec((experts, features // 128 + 1, 128, 2 * inner), "int8"), None]
    down = (TensorSpec((experts, inner, features), "int8"), TensorSpec((experts, columns), "float32"))
    return (*_fused(size)[:3], *gates, *down)


def _cached(size: dict[str, int]) -> tuple[TensorSpec, ...]:
    """Return the arguments of a decode whose cache has batch and head dimensions."""
    features, head = size["H"], size["d"]
    inner, keys = size["Hq"] * head, size["Hkv"] * head
    cache = _narrow(1, size["Hkv"], size["S_prior"], head)
    vectors = (_narrow(head), _narrow(head))
    turns = (_narrow(1, head), _narrow(1, head), TensorSpec((1, 1), "int32"))
    return (
        _narrow(1, 1, features),
        _narrow(inner, features),
        *(_narrow(keys, features),) * 2,
        *vectors,
        cache,
        cache,
        *turns,
    )


def _prefill(size: dict[str, int], transposed: bool) -> tuple[TensorSpec, ...]:
    length, features, head = size["S"], size["H"], size["d"]
    widths = [size["Hq"] * head, size["Hkv"] * head, size["Hkv"] * head]
    weights = [_narrow(features, width) if transposed else _narrow(width, features) for width in widths]
    return (
        _narrow(1, length, features),
        *weights,
        _narrow(head),
        _narrow(head),
        _narrow(length, head),
        _narrow(length, head),
    )


def _decode(size: dict[str, int]) -> tuple[TensorSpec, ...]:
    length, features, head = size["S_prior"], size["H"], size["d"]
    inner = size["Hq"] * head
    weights = (_narrow(inner, features), _narrow(head, features), _narrow(head, features), _narrow(features, inner))
    caches = (_narrow(length, head), _narrow(length, head))
    vectors = (_narrow(head), _narrow(head))
    return (_narrow(1, features), *weights, *vectors, *caches, *vectors)
