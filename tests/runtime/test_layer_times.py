"""The part of a launch that belongs to each layer, in times, traces and pages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import chains, graphs, model_of
from trninfer.app.reports.html_timeline import collect
from trninfer.models import load_model
from trninfer.models.network import Network
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Result, Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.timing import total_utilization
from trninfer.simulator.running.run import Run

NAMES = [layer.name for layer in load_model("digits-cnn").network.layers if layer.name not in ("flatten", "softmax")]


def timed(batch: int) -> Run:
    session = Session(load_model("digits-cnn"), SimulatedBackend("trn2", keep_timelines=True), "bfloat16", batch)
    ((name, run),) = session.time(batch).timelines
    assert name == "launch" and isinstance(run, Run)
    return run


@pytest.mark.parametrize("batch", [1, pytest.param(200, marks=pytest.mark.slow)])
def test_layer_times_are_contiguous_and_fill_the_launch(batch: int) -> None:
    run = timed(batch)
    assert run.parts is not None and len(run.parts.spans) >= len(NAMES)
    assert [name for name, _, _ in run.parts.spans] == NAMES * (len(run.parts.spans) // len(NAMES))
    edges = [time for _, start, end in run.parts.spans for time in (start, end)]
    assert edges[0] == 0 and edges[-1] == run.prediction.makespan
    assert edges[1:-1:2] == edges[2::2]
    assert len(run.parts.owners) == len(run.program)
    owners = [owner for owner in run.parts.owners if owner >= 0]
    assert np.all(np.diff(owners) >= 0)
    none = {run.program[n].op for n, owner in enumerate(run.parts.owners) if owner < 0}
    assert none == {"memset", "nc_matmul"}  # instructions that warm up the Tensor Engine


def test_a_trace_has_a_track_of_layers() -> None:
    run = timed(1)
    events = run.trace()["traceEvents"]
    (track,) = [event["tid"] for event in events if event["ph"] == "M" and event["args"].get("name") == "Layers"]
    assert [event["name"] for event in events if event["ph"] == "X" and event["tid"] == track] == NAMES


def test_a_page_reports_the_layer_of_each_instruction() -> None:
    run = timed(1)
    timeline = collect([("launch", run)])
    assert [span.name for span in timeline.launches] == ["launch", *NAMES]
    assert timeline.total_ns == pytest.approx(1000 * run.latency_us)
    assert {timeline.launches[span.launch].name for track in timeline.tracks for span in track.spans} == {
        "launch",
        *NAMES,
    }


def check_rows(result: Result) -> None:
    """Check that rows and resources add up in whole picoseconds, and that no resource is used for more than the total
    time."""
    for row in result.layers:
        assert round(sum(row.critical.values()), 6) == round(row.latency_us, 6)
        assert row.critical == {} or row.bound_by == max(row.critical, key=lambda name: row.critical[name])
        assert row.mfu is not None and row.hfu is not None and row.active_us is not None
        assert 0 <= row.mfu <= row.hfu <= 1 and row.latency_us <= row.active_us + 1e-6
        # the maximum HBM traffic of all DMA engines, reads and writes
        assert row.hbm_bytes <= 2 * 528 * 1000 * row.active_us
    mfu, hfu = total_utilization(result.layers, result.total_us)
    assert mfu is not None and hfu is not None and 0 <= mfu <= hfu <= 1
    assert sum(row.hfu * row.active_us for row in result.layers) == pytest.approx(hfu * result.total_us)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    chains() | graphs(),
    st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from([1, 3, 40]),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from(["network", "layer"]),
)
def test_rows_of_random_networks_add_up(network: Network, dtype: str, batch: int, target: str, per: str) -> None:
    session = Session(model_of(network), SimulatedBackend(target, True), dtype, batch, LaunchOptions(per=per))
    result = session.time(batch)
    check_rows(result)
    launches = [run.latency_us for _, run in result.timelines]
    assert len(launches) > 1 or round(result.total_us, 6) == launches[0] or batch == 40


@pytest.mark.parametrize("batch", [1, 65])
@pytest.mark.parametrize("name", ["digits-cnn", "digits-ffnn"])
def test_rows_of_bundled_networks_add_up(name: str, batch: int) -> None:
    result = Session(load_model(name), SimulatedBackend("trn2", True), "bfloat16", 64).time(batch)
    check_rows(result)
    assert result.layers[0].critical["launch"] == pytest.approx(10.2 * -(-batch // 64))


def test_the_warm_up_is_the_launchs() -> None:
    launch, hidden, _ = Session(load_model("digits-ffnn"), SimulatedBackend("trn2"), "float32", 1).time(1).layers
    assert launch.name == "launch" and launch.flops == 0 and launch.hardware_flops > 1000 * hidden.hardware_flops
    assert launch.critical["tensor"] > 0 and hidden.flops == 2 * 64 * 256 == hidden.hardware_flops
