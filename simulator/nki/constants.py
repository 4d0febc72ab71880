"""`nki.isa.constants`: the enums of `nki.isa`, under the name that AWS's kernels import them from."""

from __future__ import annotations

from .isa import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
