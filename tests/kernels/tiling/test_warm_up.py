"""Multiplying zeros during the first loads."""

import warnings

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.kernels import fused_conv2d_maxpool_packed
from trninfer.kernels.tiling.warm_up import psum_tile, warm_bank, warm_up
from trninfer.models.layout import pack_conv2d
from trninfer.simulator.machine.errors import ReportedOnChipWarning


@nki.jit
def multiply(a, b, warmed):  # type: ignore[no-untyped-def]
    """Compute a.T @ b, with or without warming up on zeros."""
    bank = None
    if warmed:
        room = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
        bank = room if warm_up(room, 4) else None
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    sums = psum_tile((a.shape[1], 1, b.shape[1]), bank)
    for n in range(16):
        nisa.nc_matmul(dst=sums, stationary=left, moving=right, accumulate=n > 0 or bank is not None)
    result = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    out = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("columns", [1, 3, 129, 512])
def test_sums_are_what_they_were(target: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    a = rng.standard_normal((128, 63)).astype(np.float32)
    b = rng.standard_normal((128, columns)).astype(np.float32)
    cold, warm = (simulator.run(multiply, a, b, warmed=warmed, target=target) for warmed in (False, True))
    np.testing.assert_array_equal(cold.outputs[0], warm.outputs[0])


def test_the_first_matmuls_run_at_the_full_clock() -> None:
    zeros = np.zeros((128, 63), np.float32), np.zeros((128, 512), np.float32)
    cold, warm = (simulator.run(multiply, *zeros, warmed=warmed, target="trn2").latency_us for warmed in (False, True))
    assert warm < cold
    cold, warm = (simulator.run(multiply, *zeros, warmed=warmed, target="trn1").latency_us for warmed in (False, True))
    assert warm == cold  # on a chip with a constant clock


@pytest.mark.parametrize("partitions", [1, 2, 128])
def test_zeros_are_no_single_column_of_16_bits(partitions: int) -> None:
    @nki.jit
    def make_zeros():  # type: ignore[no-untyped-def]
        bank = psum_tile((partitions, 512), warm_bank(partitions, 512, 2))
        result = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=bank)
        out = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("error", ReportedOnChipWarning)
        (zeros,) = simulator.run(make_zeros, target="trn2").outputs
    np.testing.assert_array_equal(zeros, np.zeros((partitions, 512)))


def test_sections_of_a_convolution_name_no_tensor_alike() -> None:
    side, channels = 64, 256  # for each of two groups
    x = simulator.TensorSpec((1, 2 * channels, side, side), "bfloat16")
    packed = pack_conv2d(np.zeros((2 * channels, channels, 3, 3), ml_dtypes.bfloat16), np.zeros(2 * channels), 2)
    specs = [simulator.TensorSpec(each.shape, each.dtype.name) for each in packed]
    options = {"in_channels": 2 * channels, "kernel_size": (3, 3), "groups": 2, "out_channels": 2 * channels}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReportedOnChipWarning)
        simulator.run(fused_conv2d_maxpool_packed, x, *specs, functional=False, **options)
