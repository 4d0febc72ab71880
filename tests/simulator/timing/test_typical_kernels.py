"""Predictions of typical kernels are between the machine's lower bound and fully serial execution, and more work never
takes less time."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.chip import PARTITIONS
from trninfer.simulator.timing.constants import TARGETS, constants, machine
from trninfer.simulator.timing.schedule import schedule
from typical_kernels import CASES

BEYOND = {("embedding", "trn1")}  # unsupported by a target
NAMES, ON = sorted(CASES), list(TARGETS)
SUPPORTED = [(n, t) for n in NAMES for t in ON if (n, t) not in BEYOND]
both = pytest.mark.parametrize(("name", "target"), SUPPORTED)


def timed(name: str, size: int, target: str, **more: Any) -> simulator.Run:
    kernel, arguments = CASES[name]
    return simulator.run(kernel, *arguments(size), target=target, functional=False, **more)


def floors_us(run: simulator.Run) -> tuple[float, float]:
    """Return lower bounds from the DMA engines and the array, using only documented rates."""
    rate = constants(run.target)["dma_sustained"]
    assert rate.mark == "documented"
    peak = 2 * PARTITIONS**2 * run.prediction.target.tensor_ghz * 1000
    return run.hbm_bytes / rate.value / 1000, sum(i.flops for i in run.program if i.op == "nc_matmul") / peak


def floor_us(run: simulator.Run) -> float:
    return max(floors_us(run))


def serial_us(run: simulator.Run) -> float:
    """Return the time of the same instructions, each after the previous one."""
    for first, second in zip(run.program, run.program[1:]):
        second.depends_on(first)
    return schedule(run.program, run.prediction.target, machine(run.target)).makespan / 1000


def work_us(run: simulator.Run) -> float:
    return run.latency_us - run.launch_us


@both
def test_predictions_are_between_the_roofline_and_the_sum_of_all_instructions(name: str, target: str) -> None:
    for size in (1, 3, 8):
        run = timed(name, size, target, constants={})
        predicted = work_us(run)
        assert floor_us(run) <= predicted
        assert all(use.busy_ns <= run.prediction.makespan + 1e-3 for use in run.engines.values())
        assert run.latency_error is not None
        assert predicted <= serial_us(run) + 1e-3


@both
def test_more_tiles_take_longer(name: str, target: str) -> None:
    times = [timed(name, size, target).latency_us for size in (1, 2, 4, 8, 16 if name != "attention_prefill" else 8)]
    assert times == sorted(times) and times[0] < times[3]


@settings(max_examples=40)
@given(
    st.sampled_from([each for each in SUPPORTED if each[0] != "attention_prefill"]),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
def test_whoever_makes_the_descriptors_and_counts_the_launch(
    case: tuple[str, str], size: int, dge: bool, profiled: bool
) -> None:
    name, target = case
    # Twice as many: with one more tile, the Tensor Engine may warm up just in time and finish earlier.
    run, more = (timed(name, n, target, dge=dge, profiled=profiled) for n in (size, 2 * size))
    assert floor_us(run) <= work_us(run) <= work_us(more)
    assert run.critical.by_resource[run.bound_by] == max(run.critical.by_resource.values())


@pytest.mark.parametrize("target", ON)
@pytest.mark.parametrize(
    ("name", "size", "most"), [("elementwise", 64, 1.6), ("layernorm", 64, 1.6), ("scan", 64, 1.6)]
)
def test_long_streams_approach_the_rate_of_the_dma_engines(name: str, size: int, most: float, target: str) -> None:
    run = timed(name, size, target)
    assert work_us(run) <= most * floor_us(run)


@pytest.mark.parametrize("target", ON)
def test_a_deep_product_approaches_the_peak_of_the_array(target: str) -> None:
    """Its first block waits for all operands, so in the worst case the times for loading and multiplying add up."""
    run = timed("matmul", 32, target)
    assert work_us(run) <= 1.25 * sum(floors_us(run))


@pytest.mark.parametrize("name", NAMES)
def test_faster_parts_never_make_a_kernel_slower(name: str) -> None:
    """On a machine with one better constant; an order may be slightly worse, as in any list scheduling."""
    usual = timed(name, 4, "trn2").latency_us
    for better in ({"dma_sustained": 1000.0}, {"dge_ns": 100.0}, {"load_first_byte_ns": 200.0}, {"table_load_ns": 0.0}):
        assert timed(name, 4, "trn2", constants=better).latency_us <= 1.1 * usual


def test_unsupported_operations_of_a_target_are_reported() -> None:
    for name, target in BEYOND:
        with pytest.raises(NkiValidationError, match="requires NeuronCore-v3"):
            timed(name, 1, target)
