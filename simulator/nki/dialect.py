"""Names, arguments and values of earlier versions of NKI, and their replacements.

The sources are the NKI migration guides (nki/migration/index.rst) and the release notes of NKI 0.1 to 0.6 in the AWS
Neuron SDK.
"""

from __future__ import annotations

_SLICES = "index with slices, as in t[0:128, 0:64], or build an access pattern with t.ap(...)"
_GRID = "launch with kernel[2] for two cores; nl.program_id(0) is the number of the current core"
_DYNAMIC = "use nisa.tensor_copy with t.ap(..., scalar_offset=...)"
_ON_HOST = "time or run the kernel from the host"

OLD_NAMES: dict[str, str] = {
    "nki.language.arange": _SLICES,
    "nki.language.mgrid": _SLICES,
    "nki.language.par_dim": "omit it: the first dimension of an on-chip tensor is the partition dimension",
    "nki.language.spmd_dim": _GRID,
    "nki.language.nc": _GRID,
    "nki.language.static_cast": "copy into a tensor of the desired dtype with nisa.tensor_copy",
    "nki.language.loop_reduce": "accumulate into a tensor in the loop",
    "nki.language.atomic_rmw": "use nisa.dma_compute",
    "nki.language.all_reduce": "use nki.collectives.all_reduce",
    "nki.language.dslice": "use nl.ds",
    "nki.language.dynamic_range": "use nl.fori_loop(start, stop, body), whose body is a function of the index",
    "nki.language.fp32": "write the number: -3.4028235e38 is the smallest float32",
    "nki.language.skip_middle_end_transformations": "omit it: there is only one compiler pipeline",
    "nki.language.enable_stack_allocator": "leave it out, or give addresses with nl.ndarray(address=...)",
    "nki.language.force_auto_alloc": "leave it out, or give addresses with nl.ndarray(address=...)",
    "nki.isa.tensor_copy_dynamic_src": _DYNAMIC,
    "nki.isa.tensor_copy_dynamic_dst": _DYNAMIC,
    "nki.isa.builtin_custom_op": "there is no replacement",
    "nki.compiler.sbuf": "give addresses with nl.ndarray(address=...)",
    "nki.compiler.psum": "give addresses with nl.ndarray(address=...)",
    "nki.baremetal": _ON_HOST,
    "nki.benchmark": _ON_HOST,
    "nki.profile": _ON_HOST,
    "nki.trace": "use nki.jit",
    "nki.simulate_kernel": "use nki.simulate(kernel)(*arrays)",
    "nki.tensor": "use nki.meta.tensor",
}

EVERY_FUNCTION = "*"
OLD_ARGUMENTS: dict[tuple[str, str], str] = {
    (EVERY_FUNCTION, "mask"): "bound the slices with min(...) instead",
    ("nki.isa.dma_copy", "dst_rmw_op"): "use nisa.dma_compute(dst, [src], reduce_op=...)",
    ("nki.isa.dma_copy", "unique_indices"): "it belongs to nisa.dma_compute now",
    ("nki.isa.sendrecv", "use_gpsimd_dma"): "use dma_engine=nisa.dma_engine.gpsimd_dma",
    ("nki.isa.register_move", "imm"): "pass a register as src: nisa.register_move(dst, nisa.register_alloc(value))",
    ("nki.isa.nc_matmul", "psumAccumulateFlag"): "omit it, or use accumulate",
    ("nki.isa.nc_matmul", "is_moving_zero"): "use is_moving_onezero",
    ("nki.collectives.collective_permute_implicit_current_processing_rank_id", "num_channels"): "leave it out",
    ("nki.collectives.collective_permute_implicit", "num_channels"): "use channel_ids",
    ("nki.jit", "mode"): "omit it: the arguments determine where the kernel runs; nki.simulate runs it on the CPU",
    ("nki.jit", "platform_target"): "set the environment variable NEURON_PLATFORM_TARGET_OVERRIDE",
}
"""Replacements of removed arguments, keyed by (function, keyword)."""

ENUMS: dict[str, str] = {
    "engine": "nisa.engine",
    "dge_mode": "nisa.dge_mode",
    "oob_mode": "nisa.oob_mode",
    "reduce_cmd": "nisa.reduce_cmd",
    "dma_engine": "nisa.dma_engine",
}
"""Parameters that accepted integers up to NKI 0.2 and have accepted members of an enum since 0.3."""


def old_name(dotted: str) -> str | None:
    """Return the message for a dotted name from an earlier version of NKI, or None for any other name."""
    for name, instead in OLD_NAMES.items():
        if dotted == name or dotted.startswith(name + "."):
            return f"{name} was removed: {instead}"
    return None


def old_argument(function: str, keyword: str) -> str | None:
    """Return the message for a keyword argument from an earlier version of NKI, or None for any other keyword."""
    instead = OLD_ARGUMENTS.get((function, keyword), OLD_ARGUMENTS.get((EVERY_FUNCTION, keyword)))
    return f"the argument {keyword} of {function} was removed: {instead}" if instead else None
