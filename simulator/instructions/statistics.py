"""Mean and variance of each partition (Vector Engine), and reductions across partitions (GpSimd Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import destination, float_values, in_sbuf, same_partitions, shaped, tile
from ..chip import BN_STATS_COLUMNS
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..operators import ALU, _shown
from ..tensor import NkiTensor

_ACROSS = ("add", "average", "maximum", "bitwise_or", "bitwise_and")


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Instruction:
    """dst[:, 0:6] = count, mean and count * variance of data's even elements, then of its odd ones."""
    core = active("bn_stats")
    destination("bn_stats", dst)
    tile("bn_stats", "data", data)
    same_partitions("bn_stats", dst, "data", data)
    if data.free_size > BN_STATS_COLUMNS:
        raise NkiValidationError(
            f"bn_stats: data {data.label} must have at most {BN_STATS_COLUMNS} elements in a partition, has "
            f"{data.free_size}"
        )
    if dst.free_size != 6:
        raise NkiValidationError(f"bn_stats: dst {dst.label} must have 6 elements in a partition, has {dst.free_size}")
    cost = core.costs.one_pass(engine.vector, data)
    instruction = core.issue("bn_stats", engine.vector, (dst,), (data,), cost, name, 4 * data.size)

    if core.functional:
        values = float_values(data).reshape(data.shape[0], -1)
        result = np.zeros((data.shape[0], 6), np.float32)
        with np.errstate(all="ignore"):
            for first in (0, 1):
                part = values[:, first::2]
                if part.shape[1]:
                    mean = part.mean(axis=1, dtype=np.float32)
                    square = np.square(part - mean[:, None]).sum(axis=1)
                    result[:, 3 * first : 3 * first + 3] = np.stack(
                        [np.full_like(mean, part.shape[1]), mean, square], 1
                    )
        dst.write(shaped(result, dst.shape))
    return instruction


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Instruction:
    """dst[:, 0:2] = mean and variance of everything that data's (count, mean, count * variance) triples describe."""
    core = active("bn_aggr")
    destination("bn_aggr", dst)
    tile("bn_aggr", "data", data)
    same_partitions("bn_aggr", dst, "data", data)
    if data.free_size % 3:
        raise NkiValidationError(
            f"bn_aggr: data {data.label} must have a multiple of 3 elements in a partition, has {data.free_size}"
        )
    if dst.free_size != 2:
        raise NkiValidationError(f"bn_aggr: dst {dst.label} must have 2 elements in a partition, has {dst.free_size}")
    cost = core.costs.bn_aggr(data)
    instruction = core.issue("bn_aggr", engine.vector, (dst,), (data,), cost, name, 4 * data.size)

    if core.functional:
        triples = float_values(data).reshape(data.shape[0], -1, 3)
        count, mean, squares = triples[..., 0], triples[..., 1], triples[..., 2]
        with np.errstate(all="ignore"):
            total = count.sum(axis=1)
            average = (count * mean).sum(axis=1) / total
            between = count * np.square(mean - average[:, None])
            variance = (squares + between).sum(axis=1) / total
        dst.write(shaped(np.stack([average, variance], axis=1), dst.shape))
    return instruction


def tensor_partition_reduce(dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None) -> Instruction:
    """dst[0] = data reduced over its partitions by add, average, maximum, bitwise_or or bitwise_and.

    Its time is not published; it is counted as one pass over the data.
    """
    core = active("tensor_partition_reduce")
    in_sbuf("tensor_partition_reduce", "dst", dst)
    in_sbuf("tensor_partition_reduce", "data", data)
    chosen = getattr(op, "__name__", "")
    if chosen not in _ACROSS:
        allowed = ", ".join("nl." + known for known in _ACROSS)
        raise NkiValidationError(f"tensor_partition_reduce: op={_shown(op)} is not allowed; allowed: {allowed}")
    if dst.shape[0] != 1 or dst.free_size != data.free_size:
        raise NkiValidationError(
            f"tensor_partition_reduce: dst {dst.label} must be 1 partition of {data.free_size} element(s), as data "
            f"{data.label} has"
        )
    if chosen.startswith("bitwise") and not (dst._dtype.is_integer and data._dtype.is_integer):
        raise NkiValidationError(f"tensor_partition_reduce: nl.{chosen} takes integers, came {data.label}, {dst.label}")
    cost = core.costs.one_pass(engine.gpsimd, data)
    instruction = core.issue("tensor_partition_reduce", engine.gpsimd, (dst,), (data,), cost, name, data.size)

    if core.functional:
        values: Array = data.values if chosen.startswith("bitwise") else float_values(data)
        reduce = ALU["add" if chosen == "average" else chosen].reduction
        assert reduce is not None
        result = reduce(values, axis=(0,))
        if chosen == "average":
            result = result / np.float32(data.shape[0])
        dst.write(shaped(result, dst.shape))
    return instruction
