"""The NeuronCores that can be simulated, as AWS documents them.

Sources (aws-neuron-sdk, nki/guides/architecture): trn1 trainium_inferentia2_arch.rst, trn2 trainium2_arch.rst, trn3
trainium3_arch.rst.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .errors import require

PARTITIONS = 128  # rows of SBUF and PSUM, and lanes of every engine
PSUM_BANKS = 8
PSUM_BANK_BYTES = 2048  # bytes per partition
PSUM_BANK_FLOATS = PSUM_BANK_BYTES // 4  # float32 elements: the columns of a matmul before NeuronCore-v4
STATIONARY_COLUMNS = 128  # columns of the PE array
BN_STATS_COLUMNS = 512  # elements of a partition that bn_stats can read (nl.tile_size.bn_stats_fmax)
KIB = 1024
# Bytes of each SBUF partition reserved by the compiler: for DMA descriptors made at run time, and a few of its own
# (nki-library, mlp_cte_constants.py, on trn2: DynamicDMAScratchLoc, EvalAccelReservedLoc; no figure is published for
# other generations, which are assumed to reserve the same).
RESERVED_SBUF_BYTES = 16 * KIB + 8


@dataclass(frozen=True)
class Target:
    """A NeuronCore generation. Clocks in GHz, sizes in bytes of one partition."""

    name: str
    generation: int  # NeuronCore version: 2, 3 or 4 (`nki.isa.nc_version` gen2, gen3, gen4)
    sbuf_bytes: int
    tensor_ghz: float
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    moving_columns: int  # the largest free size of a moving tile: one PSUM bank before NeuronCore-v4, all of PSUM on it

    @property
    def cores(self) -> int:
        """Return the NeuronCores of a device: two on trn1 (A1), eight from trn2 on (trainium2.rst, A3)."""
        return 2 if self.generation == 2 else 8

    @property
    def cores_per_stack(self) -> int:
        """Return the NeuronCores that share an HBM stack; a trn1 device has two stacks (A1), later ones four
        (trainium2.rst, A3)."""
        return 1 if self.generation == 2 else 2

    @property
    def usable_sbuf_bytes(self) -> int:
        """Return the bytes per partition available to tiles."""
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
    """Return the target with that name, or with another of AWS's names for it (gen2, inf2, gen3, gen4)."""
    target = TARGETS.get(_ALIASES.get(name, name))
    require(target, f"target {name!r} is not known; allowed: {', '.join([*TARGETS, *_ALIASES])}")
    assert target is not None
    return target


def default_target() -> Target:
    """Return `nki.simulate`'s target: NEURON_PLATFORM_TARGET_OVERRIDE, else trn3 (nki/guides/nki_simulator.rst)."""
    return find_target(os.environ.get(TARGET_VARIABLE) or "trn3")
