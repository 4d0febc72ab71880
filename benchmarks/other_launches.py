"""How each row of `data/latency-kernels-others.csv` is launched: its shapes, and what its variant differs in."""

from __future__ import annotations

import re
from typing import Any

from trninfer.benchmarks.kernels.attention_decode import attention_decode
from trninfer.benchmarks.kernels.attention_flash_decode import attention_flash_decode
from trninfer.benchmarks.kernels.attention_prefill import attention_prefill
from trninfer.benchmarks.kernels.autotuned import double_matmul, matmul_accumulated, matmul_preloaded
from trninfer.benchmarks.kernels.moe import moe_sparse
from trninfer.simulator import TensorSpec

_KEYS: dict[str, Any] = {"transposed_keys": True, "hidden_first": True}
_ROWS: dict[str, Any] = {"gate_up_by": "row", "down_by": "row"}

# What the kernels are given beside arrays, by row.
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
    "o43": {},
    "o44": {"lhs_transposed": False},
    "o45": {"lhs_transposed": True},
    "o46": {},
}
_MATMULS = {"o43": matmul_accumulated, "o44": matmul_preloaded, "o45": matmul_preloaded, "o46": double_matmul}
_MASKED = ("o12",)  # rows whose kernel loads its mask


def build(row_id: str, kernel: str, shapes: str) -> tuple[Any, tuple[TensorSpec, ...], dict[str, Any]]:
    """The kernel of a row, its arguments and parameters."""
    size = {name: int(value) for name, value in re.findall(r"\b([A-Za-z]+(?:_prior)?)(\d+)", shapes)}
    parameters = PARAMETERS[row_id]
    if row_id in _MATMULS:
        return _MATMULS[row_id], (_narrow(2048, 2048),) * (3 if "double" in kernel else 2), parameters
    if row_id in ("o18", "o19"):
        return attention_flash_decode, _cached(size), parameters
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


def _cached(size: dict[str, int]) -> tuple[TensorSpec, ...]:
    """The arguments of a decode whose cache has a batch and heads."""
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
