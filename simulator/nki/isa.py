"""`nki.isa`: the instructions, with the names and signatures of NKI 0.7."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..instructions.accumulate import exponential, tensor_scalar_reduce
from ..instructions.activate2 import activate2
from ..instructions.between_cores import core_barrier, sendrecv, sendrecv_compute
from ..instructions.core import active
from ..instructions.device_scalars import scalar_load, scalar_store
from ..instructions.dma import dge_mode, dma_copy, dma_engine, dma_transpose, oob_mode
from ..instructions.dma_compute import dma_compute
from ..instructions.gather import local_gather, nc_n_gather, nc_stream_shuffle
from ..instructions.gpsimd_engine import iota
from ..instructions.largest_eight import max8, nc_find_index8, nc_match_replace8
from ..instructions.random_numbers import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from ..instructions.register_moves import register_alloc, register_load, register_move, register_store
from ..instructions.scalar_engine import activation, activation_reduce, reduce_cmd
from ..instructions.scalar_tensor import scalar_tensor_tensor
from ..instructions.scan import tensor_scalar_cumulative, tensor_tensor_scan
from ..instructions.search import nonzero_with_count, sequence_bounds, topk
from ..instructions.select import affine_select, range_select, select_reduce, tensor_copy_predicated
from ..instructions.statistics import bn_aggr, bn_stats, tensor_partition_reduce
from ..instructions.tensor_engine import matmul_perf_mode, nc_matmul
from ..instructions.tensor_scalar import tensor_scalar
from ..instructions.transpose import nc_transpose
from ..instructions.vector_engine import memset, reciprocal, tensor_copy, tensor_reduce, tensor_tensor
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction as NkiInstruction
from ..machine.instruction import engine
from ..machine.registers import NkiScalar, VirtualRegister
from .api import missing

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


class nc_version(IntEnum):  # noqa: N801 (name and values of nki.isa)
    """NeuronCore versions for comparisons in kernels: gen2 is trn1, gen3 is trn2, and gen4 is trn3."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


def get_nc_version() -> nc_version:
    """Return the version of the NeuronCore on which the kernel runs."""
    return nc_version(active("get_nc_version").target.generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision within the version. The simulator models the first revision, 0."""
    return 0


def __getattr__(name: str) -> Any:
    return missing("nki.isa", name)


__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sendrecv_compute",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]
