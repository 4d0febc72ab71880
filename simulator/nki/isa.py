"""`nki.isa`: the instructions, with the names and signatures of NKI 0.6."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..core import active
from ..errors import NkiValidationError
from ..instruction import Instruction as NkiInstruction
from ..instruction import engine
from ..instructions.dma import dge_mode, dma_copy, dma_engine, dma_transpose, oob_mode
from ..instructions.gpsimd_engine import iota
from ..instructions.scalar_engine import activation, activation_reduce, reduce_cmd
from ..instructions.tensor_engine import matmul_perf_mode, nc_matmul, nc_transpose
from ..instructions.vector_engine import (
    max8,
    memset,
    nc_find_index8,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_reduce,
    tensor_scalar,
    tensor_tensor,
)
from .api import missing

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


class nc_version(Enum):  # noqa: N801 (name and values of nki.isa)
    """NeuronCore versions: gen2 is trn1, gen3 trn2, gen4 trn3."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


def get_nc_version() -> nc_version:
    """The version of the NeuronCore that the kernel runs on."""
    return nc_version(active("get_nc_version").target.generation)


def get_nc_sub_version() -> int:
    """The silicon revision within the version; the simulator models the first, 0."""
    return 0


def __getattr__(name: str) -> Any:
    raise missing("nki.isa", name)


__all__ = [
    "NkiInstruction",
    "NkiValidationError",
    "activation",
    "activation_reduce",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_matmul",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "reciprocal",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_engine",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "unknown_engine",
    "vector_engine",
]
