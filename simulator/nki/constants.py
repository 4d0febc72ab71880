"""`nki.isa.constants`: the enums of `nki.isa`, in the module from which AWS's kernels import them."""

from __future__ import annotations

from .isa import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
