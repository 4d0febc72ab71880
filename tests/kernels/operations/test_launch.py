"""What a launch keeps from one pass to the next."""

import numpy as np
import pytest
from lowered import decided
from random_networks import conv, ending_in_dense, model_of
from trninfer import kernels, simulator
from trninfer.lowering.decisions import Decisions

MODEL = model_of(ending_in_dense((3, 12, 12), [conv("a", 3, 16, 3), conv("b", 16, 16, 3)]))


def bytes_loaded(pictures: int, staying: tuple[int, ...] = ()) -> int:
    """Bytes that a launch in passes of one picture each loads, beside its pictures."""
    plan = decided(MODEL, Decisions(staying=staying), pictures, at_once=1)
    operands = [((pictures, *image), np.dtype(np.float32)) for image in plan.graph.inputs]
    operands += plan.layout.sizes.specs(np.dtype(np.float32))
    specs = [simulator.TensorSpec(shape, dtype.name) for shape, dtype in operands]
    run = simulator.run(kernels.kernel("run_network"), *specs, functional=False, program=plan.program)
    return sum(each.dma.bytes for each in run.program if each.dma is not None and each.dma.load)


@pytest.mark.parametrize("pictures", [1, 2, 5])
def test_weights_that_stay_are_loaded_once(pictures: int) -> None:
    once, twice = (bytes_loaded(count) for count in (1, 2))
    each = twice - once  # of another pass: its picture and all weights
    kept = [bytes_loaded(count, staying=(0,)) for count in (pictures, pictures + 1)]
    image = kept[1] - kept[0]
    assert 0 < image < each / 4
    assert kept[0] == once + (pictures - 1) * image
