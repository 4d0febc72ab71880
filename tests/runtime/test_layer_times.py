"""Which part of a launch of a network is which layer's, in times, traces and pages."""

import numpy as np
import pytest
from trninfer.app.reports.html_timeline import collect
from trninfer.models import load_model
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.simulator.run import Run

NAMES = [layer.name for layer in load_model("digits-cnn").network.layers if layer.name not in ("flatten", "softmax")]


def timed(batch: int) -> Run:
    session = Session(load_model("digits-cnn"), SimulatedBackend("trn2", keep_timelines=True), "bfloat16", batch)
    ((name, run),) = session.time(batch).timelines
    assert name == "launch" and isinstance(run, Run)
    return run


@pytest.mark.parametrize(("batch", "least"), [(1, 5), (200, 10)])
def test_layers_come_one_after_another_and_fill_the_launch(batch: int, least: int) -> None:
    run = timed(batch)
    assert run.parts is not None and len(run.parts.spans) >= least
    assert [name for name, _, _ in run.parts.spans] == NAMES * (len(run.parts.spans) // len(NAMES))
    edges = [time for _, start, end in run.parts.spans for time in (start, end)]
    assert edges[0] == 0 and edges[-1] == run.prediction.makespan
    assert edges[1:-1:2] == edges[2::2]
    assert len(run.parts.owners) == len(run.program)
    assert np.all(np.diff(run.parts.owners) >= 0)


def test_a_trace_has_a_track_of_layers() -> None:
    run = timed(1)
    events = run.trace()["traceEvents"]
    (track,) = [event["tid"] for event in events if event["ph"] == "M" and event["args"].get("name") == "Layers"]
    assert [event["name"] for event in events if event["ph"] == "X" and event["tid"] == track] == NAMES


def test_a_page_tells_the_layer_of_each_instruction() -> None:
    run = timed(1)
    timeline = collect([("launch", run)])
    assert timeline.layered and [span.name for span in timeline.launches] == ["launch", *NAMES]
    assert timeline.total_ns == pytest.approx(1000 * run.latency_us)
    assert {timeline.launches[span.launch].name for track in timeline.tracks for span in track.spans} == set(NAMES)
