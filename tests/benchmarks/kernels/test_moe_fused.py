"""The fused MoE block in bfloat16 against NumPy, each version as it was measured but smaller."""

import warnings

import numpy as np
import pytest
from fused_moe_reference import EXPERTS, INNER, close, narrow, reference, token_and_router
from trninfer import simulator
from trninfer.benchmarks.kernels.moe_fused import moe_fused
from trninfer.benchmarks.other_launches import PARAMETERS


@pytest.mark.parametrize("row", [f"o{number}" for number in range(27, 34)])
def test_moe_fused(row):
    features, rng = 2048, np.random.default_rng(0)
    inputs = token_and_router(features)
    gate_up = narrow(rng, EXPERTS, features, 2 * INNER, scale=features**-0.5)
    down = narrow(rng, EXPERTS, INNER, features, scale=INNER**-0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the measured kernels zero PSUM first
        run = simulator.run(moe_fused[2], *inputs, gate_up, down, target="trn2", **PARAMETERS[row])
    close(run.outputs[0], reference(*inputs, gate_up, down))
