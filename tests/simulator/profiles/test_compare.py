"""A measured run compared with a prediction: matching, and the constant that would explain a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from made_profiles import instruction, write
from trninfer import simulator
from trninfer.simulator.profiles import compare, read_profile


@nki.jit
def doubled(a: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


def predicted(**constants: float) -> simulator.Run:
    spec = simulator.TensorSpec((128, 512), "float32")
    return simulator.run(doubled, spec, functional=False, constants=constants)


def test_the_constant_that_is_reported_explains_the_difference(tmp_path: Path) -> None:
    """A sum of 512 columns that took 300 ns longer than the predicted 690.6 ns: 288 more cycles of Vector's pipeline.

    Costs are computed with the program, so the constant is set before the kernel runs.
    """
    rows = [instruction(n, "Vector", "TENSOR_TENSOR", 1000 * n, 991) for n in range(3)]
    measured = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
    (found,) = compare(measured, predicted())
    assert (found.engine, found.kind, found.measured, found.predicted) == ("vector", "two tensors", 3, 1)
    assert found.error == pytest.approx(-30.3, abs=0.1)
    name, _, value = found.explains.partition("=")
    assert name == "vector_fill_cycles"
    (again,) = compare(measured, predicted(**{name: float(value)}))
    assert again.explains == "" and abs(again.error) < 1


def test_work_of_only_one_run_is_shown(tmp_path: Path) -> None:
    rows = [instruction(1, "Scalar", "ACTIVATE", 0, 700), instruction(2, "Sync", "WRITE", 0, 50)]
    measured = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
    found = {(d.engine, d.kind): (d.measured, d.predicted, d.explains) for d in compare(measured, predicted())}
    assert found == {("scalar", "function"): (1, 0, ""), ("vector", "two tensors"): (0, 1, "")}


def test_a_float32_matmul_is_two_instructions_of_the_chip(tmp_path: Path) -> None:
    @nki.jit
    def product(a: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        sums = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(sums, stationary=tile, moving=tile)
        nisa.tensor_copy(dst=tile, src=sums)
        nisa.dma_copy(dst=out, src=tile)
        return out

    run = simulator.run(product, simulator.TensorSpec((128, 128), "float32"), functional=False)
    rows = [instruction(n, "Tensor", "MATMUL", 111 * n, 275) for n in range(2)]
    measured = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
    (found,) = [d for d in compare(measured, run) if d.kind == "matmul"]
    assert (found.measured, found.predicted, found.measured_ns) == (2, 1, 386.0)


def test_transposes_are_no_matmuls(tmp_path: Path) -> None:
    """Both are MATMUL on the chip; a transpose of float32 is one instruction."""
    rows = [instruction(1, "Tensor", "MATMUL", 0, 275), instruction(2, "Tensor", "MATMUL", 300, 272)]
    rows[1]["instruction_type"] = "TRANSPOSE"
    measured = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
    found = {d.kind: d.measured_ns for d in compare(measured, predicted()) if d.measured}
    assert found == {"matmul": 275, "transpose": 272}


def test_the_wait_of_a_dma_by_gpsimd_is_compared(tmp_path: Path) -> None:
    """trn2 takes 1,193 ns; the named constant explains 400 more."""
    for wait, explains in ((1193, ""), (1593, "swdge_lead_ns=976")):
        rows = [instruction(1, "Vector", "COPY", 0, 100), instruction(2, "GpSimd", "DMA_DIRECT2D", 100 + wait, 37, 1)]
        measured = read_profile(write(tmp_path / "p.json", {"instruction": rows}))
        (found,) = [d for d in compare(measured, predicted()) if d.kind == "DMA after its data"]
        assert (found.measured, found.predicted, found.explains) == (1, 1, explains)
