"""The result of a launch: derived quantities, computed by hand."""

import json

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.running.run import TWO_CORES_NOTE, write_trace
from trninfer.simulator.timing.constants import machine


@nki.jit
def product(a, b):
    """Compute a.T @ b, and a transpose of b."""
    left, right = nl.load(a), nl.load(b)
    sums, turned = (nl.ndarray(shape, nl.float32, nl.psum) for shape in ((a.shape[1], b.shape[1]), b.shape[::-1]))
    nisa.nc_matmul(sums, left, right)
    nisa.nc_transpose(turned, right, engine=nisa.engine.tensor)
    out = nl.ndarray(sums.shape, a.dtype, nl.shared_hbm)
    tile = nl.ndarray(sums.shape, a.dtype)
    nisa.tensor_copy(tile, sums)
    nisa.dma_copy(out, tile)
    return out


def launched(**options):
    return simulator.run(product, np.ones((128, 64), np.float32), np.ones((128, 100), np.float32), **options)


@pytest.fixture(scope="module", name="run")
def fixture_run():
    return launched()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_latency_is_the_launch_and_the_kernel(target):
    m = machine(target)
    benchmarked, profiled = launched(target=target), launched(target=target, profiled=True)
    kernel = benchmarked.prediction.makespan / 1000
    assert benchmarked.launch_us == m.launch_ns / 1000
    assert profiled.launch_us == (m.launch_before_ns + m.launch_after_ns) / 1000
    for each in (benchmarked, profiled):
        assert each.latency_us == pytest.approx(each.launch_us + kernel, abs=1e-6)


def test_bytes_and_operations_are_those_of_the_kernel(run):
    assert run.hbm_bytes == 4 * (128 * 64 + 128 * 100 + 64 * 100)
    assert run.flops == 2 * 128 * 64 * 100  # a copy has none
    assert run.hardware_flops > run.flops and run.outputs[0][0, 0] == 128


def test_shares_of_the_peaks(run):
    peak = 2 * 128 * 128 * run.prediction.target.tensor_ghz * 1000  # per microsecond, in 16 bits
    assert run.mfu == pytest.approx(run.flops / (peak * run.latency_us))
    assert run.hfu == pytest.approx(run.hardware_flops / (peak * run.latency_us))
    assert run.mbu == pytest.approx(run.hbm_bytes / (machine("trn2").hbm_stack_rate * 1000 * run.latency_us))


def test_the_critical_path_adds_up_to_the_latency(run):
    spent = run.critical.by_resource
    assert sum(spent.values()) == pytest.approx(run.latency_us)
    assert sum(sum(line.values()) for line in run.critical.by_line.values()) == pytest.approx(run.latency_us)
    assert spent["launch"] >= run.launch_us and set(run.critical.by_line["", 0]) == {"launch"}
    assert spent[run.bound_by] == max(spent.values()) and 0 not in spent.values()
    assert {line[0] for line in run.critical.by_line} <= {"", __file__}


def test_a_resource_that_is_faster(run):
    assert run.what_if("launch", 4.0) == pytest.approx(run.latency_us - run.launch_us * 3 / 4)
    assert run.what_if("dma_latency") < run.latency_us == run.what_if("tensor", 1.0) == run.what_if("dma_issue", 5.0)
    assert run.what_if("gpsimd") < run.latency_us  # it generates the descriptors for arguments and outputs
    with pytest.raises(NkiValidationError, match=r"what_if: resource must be one of launch, dma_issue, .*, got 'dma'"):
        run.what_if("dma")
    for times in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(NkiValidationError, match=f"what_if: times must be a positive number, got {times!r}"):
            run.what_if("tensor", times)


def test_memory_over_time_is_of_a_region(run):
    """By default SBUF: the operand that the transpose still reads and the outgoing sums, 400 bytes each."""
    use = run.memory_use()
    assert use == run.memory_use("sbuf") and use.capacity == run.prediction.target.usable_sbuf_bytes
    assert use.peak_bytes == 800 and [tile.bytes for tile in use.owners] == [400, 400]
    assert run.memory_use("psum").capacity == 16 * 1024
    with pytest.raises(NkiValidationError, match="memory_use: region must be one of sbuf, psum, got 'hbm'"):
        run.memory_use("hbm")


def test_notes_that_accompany_figures(run):
    @nki.jit
    def alone(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        ncc.all_gather([a], [out], ncc.ReplicaGroup([[0]]), 0)
        return out

    assert run.note is None and run.findings == []
    assert "scaled" in launched(target="trn3").note
    assert launched(lnc=2).note == TWO_CORES_NOTE
    assert simulator.run(alone, np.ones((2, 2), np.float32)).note.startswith("collectives are assumed to take no time")


def test_the_likely_error_is_of_a_measured_machine(run):
    assert 0 < run.latency_error < 1
    assert launched(constants={"launch_ns": 1.0}).latency_error is None


def test_traces_follow_one_another(run, tmp_path):
    whole = run.trace()
    assert json.loads(json.dumps(whole)) == whole
    assert run.name == "product" and repr(run) == f"<Run of product on trn2: {len(run.program)} instructions>"
    write_trace(tmp_path / "trace.json", [run, run])
    ends = []
    for events in (whole["traceEvents"], json.loads((tmp_path / "trace.json").read_text())["traceEvents"]):
        spans = [event for event in events if event["ph"] == "X"]
        ends.append((len(spans), max(event["ts"] + event["dur"] for event in spans)))
    assert ends[1][0] == 2 * ends[0][0] and ends[1][1] >= ends[0][1] + run.latency_us - run.launch_us


def test_a_notebook_shows_a_page(run):
    assert run._repr_html_().lstrip().startswith("<") and "product" in run._repr_html_()
