"""`--report`: the page is whole, needs nothing else, says what is so, and cannot be written to by names."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer import __version__
from trninfer.app.reports import html_charts as charts
from trninfer.app.reports import html_timeline as timeline
from trninfer.app.reports.html import write_report
from trninfer.app.reports.html_markup import element, microseconds, percent, quantity
from trninfer.app.reports.html_page import render_page
from trninfer.app.reports.report import Cores, LayerTable, Report
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.search import InputProblem
from trninfer.runtime.measure import suites
from trninfer.runtime.timing import LayerTiming

SAMPLES = Path(__file__).parents[3] / "samples"

HOSTILE = "</script><script>alert('1')</script><img src=x onerror=\"a\">&amp;\x1b[31m\n\u202e\udcff"
VOID = {"meta"}


class Page(HTMLParser):
    """A page as elements: fails where they do not nest; `text` is what a reader sees, and `scripts` what runs."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def data(self) -> dict:
        """The timeline's data."""
        return json.loads(self.scripts[0])


def layer(name: str = "conv", **changes) -> LayerTiming:
    """A row of 10 us, bound by the Tensor Engine."""
    values = {
        "name": name, "kernel": "fused_conv2d_maxpool_packed", "input_shape": (1, 3, 8, 8),
        "output_shape": (1, 4, 4, 4), "flops": 4_000_000, "hbm_bytes": 20_000, "latency_us": 10.0,
        "latency_us_p99": None, "share": 1.0, "bound_by": "tensor", "mfu": 0.25,
    }  # fmt: skip
    return LayerTiming(**{**values, **changes})


def make_report(*layers: LayerTiming, **changes) -> Report:
    """A report of one network."""
    report = Report("bench", "net", "sim", "trn2", "float32", "predicted")
    report.tables = [LayerTable("net: a batch of 1", "", layers or (layer(),))]
    for key, value in changes.items():
        setattr(report, key, value)
    return report


def event(engine: str, start: float, end: float, op: str = "op") -> SimpleNamespace:
    """An event of a run."""
    return SimpleNamespace(
        engine=engine, op=op, start_ns=start, end_ns=end, name="", line=("/a/b/kernels/x.py", 7), bytes=8, flops=3
    )


def make_run(*events: SimpleNamespace, latency_us: float = 20.0) -> SimpleNamespace:
    """A run that takes 10 us to launch."""
    return SimpleNamespace(parts=None, launch_us=10.0, latency_us=latency_us, timeline=events)


@pytest.fixture
def bench_page(cli, feature_model, tmp_path) -> Iterator[tuple[Page, dict]]:
    """The page of a bench, and its JSON."""
    path = tmp_path / "report.html"
    outcome = cli(
        "bench",
        "--model",
        feature_model,
        "--batch-size",
        3,
        "--launches",
        "layer",
        "--report",
        path,
        "--format",
        "json",
    )
    assert outcome.status == 0
    yield Page(path.read_text(encoding="utf-8")), outcome.json()


def test_the_page_needs_nothing_else(bench_page) -> None:
    page, _ = bench_page
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")
    assert not page.all("link") and not page.all("img") and not page.all("iframe")
    assert not [attributes for _, attributes in page.elements if {"src", "href", "srcset"} & set(attributes)]
    style = Path(charts.__file__).with_name("html_report.css").read_text()
    for source in (style, *page.scripts):
        assert not re.search(r"https?:|//[a-z]+\.|url\(|@import|fetch\(|XMLHttpRequest", source)


def test_the_page_says_what_the_report_says(bench_page) -> None:
    page, document = bench_page
    for row in document["layers"]:
        assert row["name"] in page.text and row["kernel"] in page.text and microseconds(row["latency_us"]) in page.text
    for words in ("predicted times", "trn2", "float32", "backend sim", f"trninfer {__version__}", "NumPy", "tiny-ffnn"):
        assert words in page.text
    assert "measured times" not in page.text
    assert microseconds(document["total_us"]) in page.text
    assert {attributes.get("data-launch") for attributes in page.all("th")} >= {
        row["name"] for row in document["layers"]
    }


def test_the_timeline_has_every_instruction(bench_page) -> None:
    page, document = bench_page
    data = page.data()
    assert [launch[0] for launch in data["launches"]] == [row["name"] for row in document["layers"]]
    assert data["total"] / 1000 == pytest.approx(document["total_us"])
    shown = sum(block[7] for track in data["tracks"] for block in track["blocks"] if track["kind"] != "critical")
    assert data["tracks"][0]["title"] == "Critical path"
    assert f"All {shown:,} instructions are drawn" in page.text
    assert {"Tensor Engine", "Scalar Engine", "DMA load 0", "DMA store 0"} <= {t["title"] for t in data["tracks"]}


def test_names_are_text_wherever_they_stand() -> None:
    report = make_report(layer(HOSTILE, kernel=HOSTILE), model=HOSTILE, latency_note=HOSTILE, choice_note=HOSTILE)
    report.predictions = [Prediction(HOSTILE, HOSTILE, 0, 0.5, (LabelProbability(HOSTILE, 0, 0.5),))]
    report.tables[0] = LayerTable(HOSTILE, HOSTILE, report.tables[0].layers)
    source = render_page(report, [(HOSTILE, make_run(event("tensor", 0, 5, HOSTILE)))], None)
    page = Page(source)
    assert len(page.scripts) == 2 and "alert" not in page.scripts[1] and not page.all("img")
    shown = "</script><script>alert('1')</script><img src=x onerror=\"a\">&amp;\\x1b[31m\\n\\u202e\\xff"
    assert page.text.count(shown) >= 6
    assert page.data()["launches"][0][0] == shown and shown in page.data()["texts"]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", source)
    source.encode("utf-8")


def test_paths_of_the_machine_are_not_on_the_page(bench_page) -> None:
    page, _ = bench_page
    lines = [text for text in page.data()["texts"] if ":" in text and ": " not in text]
    assert lines and all(re.fullmatch(r"kernels/(\w+/)?\w+\.py:\d+", line) for line in lines)


def test_host_round_trips_have_no_bandwidth_and_device_times_a_column_of_their_own() -> None:
    report = make_report(
        layer(latency_us_p99=12.0, device_us=4.0, bound_by=None, mfu=None), backend="neuron", latency_kind="measured",
        latency_label="measured, host round trip", cores=Cores(4, 77.0, (77.0, 38.5, 11.0)),
    )  # fmt: skip
    page = Page(render_page(report, (), None))
    for words in (
        "measured, host round trip times", "measured, device us", "p99 us", "77.00 us", "busiest of 4 cores",
        "3 of 4 workers answered", "worker 2", "50.0 %",
    ):  # fmt: skip
        assert words in page.text
    assert "bandwidth" not in page.text and "predicted times" not in page.text
    assert "bandwidth" in Page(render_page(make_report(), (), None)).text
    assert not page.all("canvas") and len(page.scripts) == 1  # no timeline


def test_answers_and_problems(tmp_path) -> None:
    answers = [Prediction(f"{i}.png", "seven", 7, 0.5, ()) for i in range(300)]
    report = make_report(predictions=answers, command="classify")
    report.errors = [InputProblem("broken.png", "no picture")]
    write_report(tmp_path / "x.html", report)
    page = Page((tmp_path / "x.html").read_text())
    assert "Answers, 200 of 300" in page.text and "199.png" in page.text and "200.png" not in page.text
    assert "broken.png: no picture" in page.text and "trninfer classify" in page.text


def test_comparison_and_suite(cli, feature_model, tmp_path) -> None:
    baseline = tmp_path / "baseline.json"
    cli("bench", "--model", feature_model, "--format", "json", "--output", baseline)
    document = json.loads(baseline.read_text())
    document["layers"][1]["latency_us"] /= 2
    baseline.write_text(json.dumps(document))
    report = tmp_path / "x.html"
    assert cli("bench", "--model", feature_model, "--compare", baseline, "--report", report).status == 1
    page = Page(report.read_text())
    assert "+100.00 %" in page.text and "compare FAILED" in page.text
    assert len([row for row in page.all("tr") if row.get("class") == "regression"]) == 2  # the row and the total


def test_a_suite(cli, monkeypatch, tmp_path) -> None:
    sides: dict[str, int | str] = {"m": 64, "n": 64}
    case = suites.SuiteCase("s", "the case", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", "")
    monkeypatch.setattr(suites, "_cases", lambda: (case,))
    report = tmp_path / "x.html"
    (row,) = cli("bench", "--suite", "s", "--report", report, "--format", "json").json()["suite"]
    page = Page(report.read_text())
    for words in ("the case", "student", "published us", microseconds(row["predicted_us"]), f"{row['ratio']:.2f}"):
        assert words in page.text


def test_nothing_to_show_is_no_fault() -> None:
    empty = layer(flops=0, hbm_bytes=0, latency_us=0.0, share=0.0, mfu=None, bound_by=None)
    for report in (make_report(empty), make_report(tables=[])):
        Page(render_page(report, (), None))
    page = Page(render_page(make_report(empty), [("launch", make_run(latency_us=10.0))], None))
    assert page.data()["tracks"] == []


def test_the_file_is_written_whole_or_not_at_all(cli, feature_model, tmp_path) -> None:
    for wrong in (tmp_path, tmp_path / "no" / "folder.html"):
        outcome = cli("bench", "--model", feature_model, "--report", wrong)
        assert outcome.status == 2 and outcome.err.startswith("trninfer: --report") and outcome.out == ""
    outcome = cli("bench", "--model", feature_model, "--report", "/dev/full")
    assert outcome.status == 2 and outcome.err.startswith("trninfer: --report /dev/full: cannot be written: No space")
    page = tmp_path / "page.html"
    page.write_text("before")
    (tmp_path / "link.html").symlink_to(page)
    assert cli("bench", "--model", feature_model, "--report", tmp_path / "link.html").status == 0
    assert (tmp_path / "link.html").is_symlink() and page.read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "page.html"]


spans = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0.01, 50), st.integers(0, 2)), min_size=1, max_size=60
).map(lambda gaps: list(as_spans(gaps)))  # fmt: skip


def as_spans(gaps: list[tuple[float, float, int]]) -> Iterator[timeline.InstructionSpan]:
    """Spans that follow each other, from (time since the last, length, launches since the last)."""
    clock, launch = 0.0, 0
    for gap, length, next_launch in gaps:
        launch += next_launch
        yield timeline.InstructionSpan(clock + gap, clock + gap + length, launch, "op", "x.py:1", 2, 5)
        clock += gap + length


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


def test_a_page_tells_what_was_merged(monkeypatch) -> None:
    monkeypatch.setattr(timeline, "MAX_BLOCKS", 10)
    events = [event("vector", 100.0 * i, 100.0 * i + 60) for i in range(80)]
    page = Page(render_page(make_report(), [("conv", make_run(*events))], None))
    blocks = page.data()["tracks"][0]["blocks"]
    assert len(blocks) <= 10 and sum(block[7] for block in blocks) == 80
    assert f"80 instructions are drawn as {len(blocks)} blocks" in page.text and "None is left out" in page.text


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


def test_a_layer_at_a_roof_lies_on_its_line() -> None:
    """Ten microseconds at the peak of the PE array, and at the bandwidth of HBM."""
    limits = {roof.name: roof.value for roof in charts.roofs("trn2", "bfloat16")}
    assert limits["PE array, 16 bits"] == 2 * 128 * 128 * 2.4e9 and "PE array, float32" not in limits
    assert {roof.name: roof.value for roof in charts.roofs("trn2", "float32")}["PE array, float32"] == 128 * 128 * 1.2e9
    busy = layer("at the peak", flops=round(limits["PE array, 16 bits"] * 1e-5), hbm_bytes=1000)
    moving = layer("at the bandwidth", flops=1000, hbm_bytes=round(limits["HBM"] * 1e-5))
    source = charts.roofline(
        [LayerTable("t", "", (busy, moving, layer("still", flops=0)))], "trn2", "bfloat16", "predicted"
    )
    page = Page(source)
    circles = {title: circle for title, circle in zip(re.findall(r"<title>(at the \w+)", source), page.all("circle"))}
    flat, slope = (
        next(line for line in page.all("line") if line.get("class") == "roof" and (line["y1"] == line["y2"]) == is_flat)
        for is_flat in (True, False)
    )
    assert circles["at the peak"]["cy"] == flat["y1"]
    x1, y1, x2, y2 = (float(slope[key] or "nan") for key in ("x1", "y1", "x2", "y2"))
    x, y = (float(circles["at the bandwidth"][key] or "nan") for key in ("cx", "cy"))
    assert (y - y1) / (x - x1) == pytest.approx((y2 - y1) / (x2 - x1), rel=0.01)
    assert "not on the chart: still" in source


def test_labels_do_not_cover_each_other() -> None:
    layers = tuple(layer(f"layer number {i}", flops=4_000_000 + 1000 * i) for i in range(30))
    page = Page(charts.roofline([LayerTable("t", "", layers)], "trn2", "float32", "predicted"))
    labels = [text for text in page.all("text") if text.get("class") == "point-label"]
    places = [(float(text["x"] or 0), float(text["y"] or 0)) for text in labels]
    assert 1 <= len(places) < 30
    assert all(abs(y - v) >= 13.9 or abs(x - u) > 80 for i, (x, y) in enumerate(places) for u, v in places[:i])


def test_units() -> None:
    assert [percent(x) for x in (0.25, 0.0025, 0.00001, 0)] == ["25.0 %", "0.25 %", "< 0.01 %", "0.0 %"]
    assert [quantity(x, "B") for x in (0, 999, 1000, 12345, 2.5e12)] == ["0 B", "999 B", "1 kB", "12.3 kB", "2.5 TB"]
    assert [microseconds(x) for x in (1.234, 123.45, 12345.6)] == ["1.23", "123.5", "12,346"]
    assert element("a", "<", None, ["x", element("b")], class_="&", hidden=True, id=None) == (
        '<a class="&amp;" hidden>&lt;x<b></b></a>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8"/>'


@pytest.mark.parametrize(
    "command", [("classify", SAMPLES / "7-clean-print.png"), ("ffnn", "--data", SAMPLES / "digits-X.bin")]
)
def test_answering_commands_write_a_page_too(cli, tmp_path, command) -> None:
    page = tmp_path / "report.html"
    outcome = cli(*command, "--report", page, "--quiet")
    assert outcome.status == 0
    text = page.read_text(encoding="utf-8")
    assert "predicted" in text and "argmax" in text and "Roofline" in text
    assert cli(*command, "--report", tmp_path / "missing" / "report.html", "--quiet").status == 2
