"""The launch grid in a kernel: with one core, with two, and without a grid."""

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError


@nki.jit
def grid():
    result = nl.ndarray((1, 3), nl.int32)
    for i, value in enumerate((nl.program_id(0), nl.num_programs(axes=0), nl.program_ndim())):
        nisa.memset(result[:, i : i + 1], value)
    out = nl.ndarray((2, 3), nl.int32, nl.shared_hbm)
    nisa.dma_copy(out[nl.program_id(0) : nl.program_id(0) + 1], result)
    return out


def test_a_kernel_knows_its_place_in_the_grid():
    assert simulator.run(grid[2]).outputs[0].tolist() == [[0, 2, 1], [1, 2, 1]]
    assert simulator.run(grid[1]).outputs[0][0].tolist() == [0, 1, 1]
    assert simulator.run(grid).outputs[0][0].tolist() == [0, 1, 0]


def test_a_grid_has_one_axis(core):
    assert nl.program_id(None) == 0 and nl.num_programs((0,)) == nl.num_programs([0, 0]) == 1
    for call, name in (
        (lambda: nl.program_id(1), "program_id"),
        (lambda: nl.num_programs(1), "num_programs"),
        (lambda: nl.num_programs((0, -1)), "num_programs"),
    ):
        with pytest.raises(
            NkiValidationError, match=rf"nl\.{name}: axis must be 0, the only axis of a launch grid, got -?1"
        ):
            call()


@pytest.mark.parametrize("function", ["program_id", "num_programs", "program_ndim"])
def test_outside_of_a_kernel(function):
    with pytest.raises(NkiValidationError, match=f"^{function} can only be called inside a kernel"):
        getattr(nl, function)()
