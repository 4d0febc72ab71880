"""nki.benchmark and the similar functions of earlier versions, on the simulator."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator.machine.errors import EarlierNkiWarning
from trninfer.simulator.machine.settings import NO_DGE_VARIABLE, changed_environment
from trninfer.simulator.running.runners import RUNNERS, Benchmark

A = np.arange(512, dtype=np.float32).reshape(128, 4)


@nki.jit
def doubled(a, target=2.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.multiply, target)
    nisa.dma_copy(out, tile)
    return out


def plain(a):
    return doubled.function(a)


@pytest.mark.parametrize("name", list(RUNNERS))
def test_names_of_earlier_versions_run_with_a_warning(name):
    with pytest.warns(EarlierNkiWarning, match=f"nki.{name} is from an earlier version of NKI"):
        assert getattr(nki, name) is RUNNERS[name]


@pytest.mark.parametrize("kernel", [doubled, plain])
def test_kernels_run(kernel):
    for run in (
        RUNNERS["baremetal"](kernel),
        RUNNERS["baremetal"](save_neff_name="file.neff")(kernel),
        RUNNERS["trace"](kernel),
        lambda a: RUNNERS["simulate_kernel"](kernel, a),
    ):
        assert np.array_equal(run(A), 2 * A)


@pytest.mark.parametrize("options", [None, {}, {"warmup": 5, "iters": 20, "save_neff_name": "file.neff"}])
def test_a_benchmark_returns_the_predicted_latency(options, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    timed = RUNNERS["benchmark"](doubled) if options is None else RUNNERS["benchmark"](**options)(doubled)
    assert timed.benchmark_result is None and timed.__name__ == "doubled"
    assert timed(A) is None
    latency = timed.benchmark_result.nc_latency
    expected = simulator.run(doubled, A, target="trn1").latency_us
    assert [latency.get_latency_percentile(p) for p in (0, 50, 99, 100)] == [expected] * 4
    assert "predicted" in repr(latency)
    timed(A, target=3.0)  # a parameter of the kernel with the name of an option
    with pytest.raises(ValueError, match="0 to 100"):
        latency.get_latency_percentile(101)


def test_descriptors_made_by_software_take_longer():
    plainly, without = Benchmark(doubled, dge=True), RUNNERS["benchmark"](additional_compile_opt="-O1 --disable-dge")
    slower = without(doubled)
    for timed in (plainly, slower):
        timed(A)
    latencies = [timed.benchmark_result.nc_latency.predicted_us for timed in (plainly, slower)]
    expected = [simulator.run(doubled, A, target="trn2", dge=dge).latency_us for dge in (True, False)]
    assert latencies == expected and latencies[0] != latencies[1]
    with changed_environment({NO_DGE_VARIABLE: "1"}):
        plainly(A)
    assert plainly.benchmark_result.nc_latency.predicted_us == expected[1]


def test_a_profile_counts_as_a_profile_does():
    timed = RUNNERS["profile"](working_directory="/nowhere")(doubled)
    timed(A)
    expected = simulator.run(doubled, A, profiled=True).latency_us
    assert timed.benchmark_result.nc_latency.predicted_us == expected


def test_a_benchmark_passes_its_launch_grid_to_a_migrated_kernel():
    seen = []

    @nki.jit
    def kernel(a, grid):
        seen.append(grid)
        return doubled.function(a)

    timed = Benchmark(kernel, dge=True)
    timed[2, 3](A)
    timed[4](A)
    assert seen == [(2, 3), (4,)] and timed.benchmark_result.nc_latency.get_latency_percentile(99) > 0
