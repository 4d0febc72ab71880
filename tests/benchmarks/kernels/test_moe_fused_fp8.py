"""The fused MoE block with 8-bit weights against NumPy, each version as it was measured but smaller."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from fused_moe_reference import EXPERTS, INNER, close, reference, token_and_router
from trninfer import simulator
from trninfer.benchmarks.kernels.moe_fused_fp8 import moe_fused_fp8
from trninfer.benchmarks.other_launches import PARAMETERS

P = 128


def packed(gate_up, scales):
    """Weights in planes of 128 features, and behind them a plane that begins with the scales of 128 outputs each."""
    planes = gate_up.reshape(EXPERTS, -1, P, 2 * INNER)
    last = np.zeros((EXPERTS, 1, P, 2 * INNER), np.int8)
    columns = np.ascontiguousarray(scales.reshape(EXPERTS, -1, P).transpose(0, 2, 1))
    last[:, 0, :, : 4 * columns.shape[2]] = columns.view(np.int8)
    return np.concatenate([planes, last], axis=1)


@pytest.mark.parametrize("row", [f"o{number}" for number in range(34, 41)])
def test_moe_fused_fp8(row):
    version, features, rng = PARAMETERS[row]["version"], 1024, np.random.default_rng(1)
    columns = features // 4 if row in ("o34", "o35") else features  # that have scales and so are computed
    inputs = token_and_router(features)
    gate_up = rng.standard_normal((EXPERTS, features, 2 * INNER)).astype(ml_dtypes.float8_e4m3)
    down = rng.standard_normal((EXPERTS, INNER, features)).astype(ml_dtypes.float8_e4m3)
    gate_scales = rng.uniform(0.5, 2, (EXPERTS, 2 * INNER)).astype(np.float32) * features**-0.5
    down_scales = rng.uniform(0.5, 2, (EXPERTS, columns)).astype(np.float32) * INNER**-0.5
    gates = [gate_up.view(np.int8), gate_scales]
    if version.packed:
        gates = [packed(gates[0], gate_scales), None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the measured kernels zero PSUM first
        run = simulator.run(
            moe_fused_fp8[2], *inputs, *gates, down.view(np.int8), down_scales, version=version, target="trn2"
        )
    scaled_gates = gate_up.astype(np.float32) * gate_scales[:, None, :]
    scaled_down = down.astype(np.float32)[:, :, :columns] * down_scales[:, None, :]
    close(run.outputs[0][:, :columns], reference(*inputs, scaled_gates, scaled_down))
