"""The NeuronCores that can be simulated, as documented by AWS.

Sources (aws-neuron-sdk, nki/guides/architecture): trn1 trainium_inferentia2_arch.rst, trn2 trainium2_arch.rst, trn3
trainium3_arch.rst.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import require

PARTITIONS = 128  # number of rows of SBUF and PSUM, and of lanes of every engine
PSUM_BANKS = 8
PSUM_BANK_BYTES = 2048  # bytes per partition
PSUM_BANK_FLOATS = PSUM_BANK_BYTES // 4  # float32 elements; maximum columns of a matmul before NeuronCore-v4
STATIONARY_COLUMNS = 128  # number of columns of the PE array
BN_STATS_COLUMNS = 512  # maximum elements per partition for bn_stats (nl.tile_size.bn_stats_fmax)
KIB = 1024
# Bytes of each SBUF partition that the compiler reserves for DMA descriptors generated at run time and for internal use
# (nki-library, mlp_cte_constants.py, on trn2: DynamicDMAScratchLoc, EvalAccelReservedLoc). No figures are published for
# other generations; they are assumed to reserve the same amount.
RESERVED_SBUF_BYTES = 16 * KIB + 8


@dataclass(frozen=True)
class Target:
    """A NeuronCore generation. Clock rates are in GHz, and memory sizes in bytes per partition."""

    name: str
    generation: int  # NeuronCore version: 2, 3 or 4 (`nki.isa.nc_version` gen2, gen3, gen4)
    sbuf_bytes: int
    tensor_ghz: float
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    moving_columns: int  # maximum free size of a moving tile: one PSUM bank, or all of PSUM on NeuronCore-v4

    @property
    def cores(self) -> int:
        """Return the number of NeuronCores per device: two on trn1 (A1), eight since trn2 (trainium2.rst, A3)."""
        return 2 if self.generation == 2 else 8

    @property
    def cores_per_stack(self) -> int:
        """Return the number of NeuronCores that share an HBM stack. A trn1 device has two stacks (A1), later devices
        have four (trainium2.rst, A3)."""
        return 1 if self.generation == 2 else 2

    @property
    def usable_sbuf_bytes(self) -> int:
        """Return the number of SBUF bytes per partition that are available to tiles."""
        return self.sbuf_bytes - RESERVED_SBUF_BYTES

    @property
    def psum_bytes(self) -> int:
        return PSUM_BANKS * PSUM_BANK_BYTES


TARGETS = {
    "trn1": Target(
        name="trn1",
        generation=2,
        sbuf_bytes=192 * KIB,
        tensor_ghz=2.8,
        vector_ghz=1.12,
        scalar_ghz=1.4,
        gpsimd_ghz=1.4,
        moving_columns=512,
    ),
    "trn2": Target(
        name="trn2",
        generation=3,
        sbuf_bytes=224 * KIB,
        tensor_ghz=2.4,
        vector_ghz=0.96,
        scalar_ghz=1.2,
        gpsimd_ghz=1.2,
        moving_columns=512,
    ),
    "trn3": Target(
        name="trn3",
        generation=4,
        sbuf_bytes=256 * KIB,
        tensor_ghz=2.4,
        vector_ghz=1.2,
        scalar_ghz=1.2,
        gpsimd_ghz=1.2,
        moving_columns=4096,
    ),
}

_ALIASES = {"gen2": "trn1", "inf2": "trn1", "gen3": "trn2", "gen4": "trn3"}

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"


def find_target(name: str) -> Target:
    """Return the target with the given name or AWS alias (gen2, inf2, gen3, gen4)."""
    target = TARGETS.get(_ALIASES.get(name, name))
    require(target, f"target must be one of {', '.join([*TARGETS, *_ALIASES])}, got {name!r}")
    assert target is not None
    return target


def default_target() -> Target:
    """Return the default target of `nki.simulate`: the value of NEURON_PLATFORM_TARGET_OVERRIDE if set, otherwise trn3
    (nki/guides/nki_simulator.rst)."""
    return find_target(os.environ.get(TARGET_VARIABLE) or "trn3")
