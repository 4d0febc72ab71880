"""The timeline of a page: consecutive launches, and no time lost when instructions are merged."""

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import Page, event, make_report, make_run
from trninfer import kernels, simulator
from trninfer.app.reports import html_timeline as timeline
from trninfer.app.reports.html_page import render_page


def as_spans(gaps: list[tuple[float, float, int]]) -> Iterator[timeline.InstructionSpan]:
    """Return consecutive spans, given (gap, length, number of launches since the last span)."""
    clock, launch = 0.0, 0
    for gap, length, next_launch in gaps:
        launch += next_launch
        yield timeline.InstructionSpan(clock + gap, clock + gap + length, launch, "op", "x.py:1", 2, 5)
        clock += gap + length


spans = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0.01, 50), st.integers(0, 2)), min_size=1, max_size=60
).map(lambda gaps: list(as_spans(gaps)))  # fmt: skip


@given(spans, st.integers(1, 30))
def test_thinning_loses_nothing(found, limit) -> None:
    launches = tuple(
        timeline.LaunchSpan(str(number), 0, 0, found[-1].end) for number in range(len({span.launch for span in found}))
    )
    line = timeline.Timeline(launches, (timeline.Track("tensor", "Tensor Engine", found),))
    (blocks,), resolution = timeline.thin(line, limit)
    assert len(blocks) <= max(limit, len(launches))
    assert sum(block.count for block in blocks) == len(found)
    assert sum(block.busy for block in blocks) == pytest.approx(sum(span.end - span.start for span in found))
    assert sum(block.bytes for block in blocks) == 2 * len(found)
    assert all(one.end <= other.start + 1e-3 for one, other in pairwise(blocks))
    assert {block.launch for block in blocks} == {span.launch for span in found}
    assert (resolution == 0) == (len(found) <= max(limit, len(launches)))


def test_a_page_reports_what_was_merged(monkeypatch) -> None:
    monkeypatch.setattr(timeline, "MAX_BLOCKS", 10)
    events = [event("vector", 100.0 * i, 100.0 * i + 60) for i in range(80)]
    page = Page(render_page(make_report(), [("conv", make_run(*events))], None))
    blocks = page.data()["tracks"][0]["blocks"]
    assert len(blocks) <= 10 and sum(block[7] for block in blocks) == 80
    assert (
        f"80 instructions are drawn as {len(blocks)} blocks" in page.text and "No instruction is omitted" in page.text
    )


def test_queues_beyond_the_last_lane_share_it() -> None:
    events = [event(f"dma load {queue}", 0.0, 100.0) for queue in range(20)]
    line = timeline.collect([("conv", make_run(*events))])
    assert [len(track.spans) for track in line.tracks] == [1] * (timeline.MAX_LANES - 1) + [21 - timeline.MAX_LANES]
    assert line.tracks[-1].title == "DMA load 5 and up"
    (block,) = timeline.merge(line.tracks[-1].spans, 0.0)
    assert (block.count, block.busy) == (21 - timeline.MAX_LANES, 100.0)


@given(spans)
def test_utilisation_is_what_is_covered(found) -> None:
    edges = np.linspace(0, found[-1].end, 14)
    shares = timeline._shares([(span.start, span.end) for span in found], edges)
    for low, high, share in zip(edges, edges[1:], shares):
        covered = sum(max(0.0, min(span.end, high) - max(span.start, low)) for span in found)
        assert share == pytest.approx(covered / (high - low), abs=1e-6)


def span(start: float, end: float, launch: int = 0, op: str = "op", line: str = "x.py:1") -> timeline.InstructionSpan:
    return timeline.InstructionSpan(start, end, launch, op, line, 2, 5)


def test_spans_of_one_cell_or_that_overlap_are_one_block() -> None:
    found = [span(0, 3), span(2, 5), span(5, 6), span(7, 8, 1), span(9.5, 12, 1, "other"), span(13, 14, 1, line="")]
    apart = timeline.merge(found, 0.0)
    assert [(b.start, b.end, b.count, b.busy) for b in apart] == [
        (0, 5, 2, 5), (5, 6, 1, 1), (7, 8, 1, 1), (9.5, 12, 1, 2.5), (13, 14, 1, 1),
    ]  # fmt: skip
    grid = timeline.merge(found, 8.0)  # cells begin at 0, 8, 16; launches are kept separate
    assert [(b.start, b.end, b.launch, b.op, b.line, b.count, b.busy, b.bytes, b.flops) for b in grid] == [
        (0, 6, 0, "op", "x.py:1", 3, 6, 6, 15), (7, 8, 1, "op", "x.py:1", 1, 1, 2, 5),
        (9.5, 14, 1, "several", "", 2, 3.5, 4, 10),
    ]  # fmt: skip
    assert timeline.merge([], 1.0) == []


def test_launches_are_consecutive_and_engines_are_in_order() -> None:
    first = make_run(event("dma store 0", 0, 4), event("gpsimd", 1, 2), event("tensor", 0, 5), latency_us=15.0)
    second = make_run(event("tensor", 2, 9, "later"), event("dma load 3", 0, 1))
    found = timeline.collect([("a", first), ("b", second)])
    assert found.launches == (("a", 0, 10_000, 15_000), ("b", 15_000, 25_000, 35_000))
    assert [(track.kind, track.title) for track in found.tracks] == [
        ("tensor", "Tensor Engine"), ("gpsimd", "GpSimd Engine"), ("dma", "DMA load 3"), ("dma", "DMA store 0"),
    ]  # fmt: skip
    spans = [(s.start, s.end, s.launch, s.op) for s in found.tracks[0].spans]
    assert spans == [(10_000, 10_005, 0, "op"), (25_002, 25_009, 1, "later")]
    assert (found.total_ns, found.instructions) == (35_000, 5)
    assert timeline.collect([]) == timeline.Timeline((), ()) and timeline.Timeline((), ()).total_ns == 0


def test_two_cores_have_tracks_of_their_own() -> None:
    events = [event(f"core {core} {engine}", 0, 1) for core in (1, 0) for engine in ("dma load 9", "vector", "tensor")]
    titles = [track.title for track in timeline.collect([("a", make_run(*events))]).tracks]
    each = ("Tensor Engine", "Vector Engine", "DMA load 5 and up")
    assert titles == [f"core {core} {title}" for core in (0, 1) for title in each]


def test_layers_of_a_launch_are_reported_as_launches() -> None:
    """Positions below 0 do not belong to an instruction of the program, and owner -1 is the launch itself."""
    parts = SimpleNamespace(owners=(-1, 0, 1), spans=(("conv", 0.0, 50.0), ("fc", 50.0, 80.0)))
    events = [event("tensor", 10.0 * i, 10.0 * i + 5) for i in range(4)]
    for position, each in zip((0, 1, 2, -1), events):
        each.position = position
    step = SimpleNamespace(position=2, resource="tensor", name="", op="matmul", start_ns=60, end_ns=70, line=("", 0))
    run = make_run(*events)
    run.parts, run.critical_path = parts, (step,)
    found = timeline.collect([("net", run)])
    assert found.launches == (
        ("net", 0, 10_000, 10_000), ("conv", 10_000, 10_000, 10_050), ("fc", 10_050, 10_050, 10_080),
    )  # fmt: skip
    critical, tensor = found.tracks
    assert [each.launch for each in tensor.spans] == [0, 1, 2, 1] and found.instructions == 4
    assert (critical.title, critical.spans) == (
        "Critical path", [timeline.InstructionSpan(10_060, 10_070, 2, "tensor: matmul", "", 0, 0)],
    )  # fmt: skip


def test_a_real_launch_is_as_busy_as_the_simulator_says() -> None:
    run = simulator.run(kernels.kernel("transpose"), simulator.TensorSpec((129, 130), "float32"), functional=False)
    found = timeline.collect([("t", run)])
    assert found.total_ns == pytest.approx(1000 * run.latency_us) and found.instructions == len(run.timeline)
    blocks, _ = timeline.thin(found, 10_000)
    busy = {track.kind: sum(block.busy for block in row) for track, row in zip(found.tracks, blocks)}
    assert busy["tensor"] == pytest.approx(run.engines["tensor"].busy_ns)
    lines = {each.line.partition(":")[0] for track in found.tracks for each in track.spans}
    assert "kernels/transpose.py" in lines and not any(line.startswith("/") for line in lines)


def test_the_section_states_that_all_instructions_are_drawn() -> None:
    found = timeline.collect([("a<b", make_run(event("scalar", 0, 10_000), latency_us=20.0))])
    page = Page(timeline.timeline_section(found, "the note", "predicted"))
    assert "All 1 instructions are drawn, each as a separate block." in page.text and "the note" in page.text
    (canvas, _) = page.all("canvas")
    assert canvas["aria-label"] == "predicted timeline of 20.00 microseconds with the tracks Scalar Engine"
    data = page.data()
    assert data["launches"] == [["a<b", 0, 10000, 20000]] and data["total"] == 20000
    assert data["tracks"][0]["blocks"] == [[10000, 10000, 0, 0, 1, 8, 3, 1, 10000]]
    assert data["texts"][0] == "op" and data["texts"][1].endswith("x.py:7")
