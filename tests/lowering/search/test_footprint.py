"""The estimated SBUF use of a program, compared with hand-computed values for small programs."""

import numpy as np
import pytest
from lowered import decided, planned, tensor_spec
from random_networks import conv, ending_in_dense, model_of
from trninfer import kernels, simulator
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.search.footprint import SCRATCH_BYTES, Footprint
from trninfer.models.layers import Activation, Affine, Layer, LayerNorm, Pool
from trninfer.runtime.layer_launches import specs_of
from trninfer.simulator.machine.chip import PSUM_BANK_BYTES, PSUM_BANKS

AFTER: dict[str, Layer] = {
    "conv2d": conv("b", 64, 64, 3),
    "activation": Activation("b", "mish"),
    "affine": Affine("b", (64,)),
    "layer_norm": LayerNorm("b", 64),
    "pool": Pool("b", "max", (2, 2), (2, 2)),
}


@pytest.mark.parametrize("kind", AFTER)
def test_beside_what_stays_there_is_room_for_sums_of_half_of_psum(kind: str) -> None:
    """While the Tensor Engine fills half of the banks, the sums of the other half pass through SBUF."""
    plan = decided(ending_in_dense((3, 12, 12), [conv("a", 3, 64, 3), AFTER[kind]]), Decisions())
    footprint = Footprint(plan.emitted, plan.layout)
    peak, at = footprint.peak
    alive = [n for n in range(at + 1) if n == at or footprint._last.get(n, -1) >= at]
    held = sum(footprint.value(n) for n in alive) + footprint._weights(at) + 4 * plan.layout.columns
    assert peak - held >= PSUM_BANKS // 2 * PSUM_BANK_BYTES


def test_a_value_takes_its_margin_its_images_and_its_tiles() -> None:
    layers: list[Layer] = [conv("a", 3, 200, 3), conv("b", 200, 8, 3)]
    plan = decided(ending_in_dense((3, 12, 10), layers), Decisions(), 3)
    footprint = Footprint(plan.emitted, plan.layout)
    number = next(n for n, operation in enumerate(plan.program.operations) if operation.channels == 200)
    assert footprint.value(number) == 2 * 3 * (12 + 2) * (10 + 2) * 4  # 200 channels are two tiles


@pytest.mark.slow
def test_images_further_apart_than_instructions_step_are_not_together() -> None:
    layers: list[Layer] = [conv("a", 3, 72, 3), conv("b", 72, 8, 3)]
    plan = planned(ending_in_dense((3, 190, 190), [*layers, Pool("p", "max", (19, 19), (19, 19))]), 2, "bfloat16")
    assert plan.passes[0] == 2  # an image has 190 * 190 elements, more than half of the range of a signed 16-bit number


@pytest.mark.parametrize("batch", [1, 3])
def test_it_is_no_less_than_what_the_simulator_counts(batch: int) -> None:
    layers: list[Layer] = [conv("a", 3, 48, 3), conv("b", 48, 130, 3), Pool("p", "max", (2, 2), (2, 2))]
    plan = decided(model_of(ending_in_dense((3, 24, 24), layers)), Decisions(), batch)
    operands = {name: tensor_spec(spec) for name, spec in specs_of(plan, np.dtype(np.float32)).items()}
    run = simulator.run(kernels.kernel("run_network"), **operands, functional=False, program=plan.program)
    peak, _ = Footprint(plan.emitted, plan.layout).peak
    assert run.memory.sbuf_bytes <= peak <= 2 * run.memory.sbuf_bytes + SCRATCH_BYTES + np.dtype(np.float32).itemsize
