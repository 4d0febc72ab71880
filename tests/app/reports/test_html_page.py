"""`--report`: the page is complete and self-contained, states its caveats, and escapes names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from report_pages import Page, event, layer, make_report, make_run
from trninfer import __version__
from trninfer.app.reports import html_charts as charts
from trninfer.app.reports.html import write_report
from trninfer.app.reports.html_markup import microseconds
from trninfer.app.reports.html_page import render_page
from trninfer.app.reports.report import Cores, LayerTable
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.search import InputProblem
from trninfer.runtime.measure import suites

SAMPLES = Path(__file__).parents[3] / "samples"

HOSTILE = "</script><script>alert('1')</script><img src=x onerror=\"a\">&amp;\x1b[31m\n\u202e\udcff"


@pytest.fixture
def bench_page(cli, feature_model, tmp_path) -> Iterator[tuple[Page, dict]]:
    """Return the page of a benchmark, and its JSON."""
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


def test_the_page_contains_the_figures_of_the_report(bench_page) -> None:
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
    def measured(**times: float) -> Page:
        report = make_report(
            layer(latency_us_p99=12.0, bound_by=None, mfu=None, **times), backend="neuron", latency_kind="measured",
            latency_label="measured, host round trip", cores=Cores(4, 77.0, (77.0, 38.5, 11.0)),
        )  # fmt: skip
        return Page(render_page(report, (), None))

    page = measured(device_us=4.0)
    for words in (
        "measured, host round trip times", "measured, device us", "p99 us", "77.00 us", "busiest of 4 cores",
        "3 of 4 workers ran batches", "worker 2", "50.0 %",
    ):  # fmt: skip
        assert words in page.text
    assert "bandwidth" in page.text and "predicted times" not in page.text  # based on the time on the device
    assert "bandwidth" not in measured().text
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
    # the row of the layer and the total
    assert len([row for row in page.all("tr") if row.get("class") == "regression"]) == 2


def test_a_suite(cli, monkeypatch, tmp_path) -> None:
    sides: dict[str, int | str] = {"m": 64, "n": 64}
    case = suites.SuiteCase("s", "the case", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", "")
    monkeypatch.setattr(suites, "_cases", lambda: (case,))
    report = tmp_path / "x.html"
    (row,) = cli("bench", "--suite", "s", "--report", report, "--format", "json").json()["suite"]
    page = Page(report.read_text())
    for words in ("the case", "student", "published us", microseconds(row["predicted_us"]), f"{row['ratio']:.2f}"):
        assert words in page.text


def test_empty_report_is_a_valid_page() -> None:
    empty = layer(flops=0, hbm_bytes=0, latency_us=0.0, share=0.0, mfu=None, bound_by=None)
    for report in (make_report(empty), make_report(tables=[])):
        Page(render_page(report, (), None))
    page = Page(render_page(make_report(empty), [("launch", make_run(latency_us=10.0))], None))
    assert page.data()["tracks"] == []


@pytest.mark.parametrize("command", ["classify", "ffnn"])
def test_answering_commands_write_a_page_too(cli, tmp_path, pictures, picture_model, feature_model, command) -> None:
    page = tmp_path / "report.html"
    np.save(tmp_path / "X.npy", np.zeros((3, 6), np.float32))
    inputs = {"classify": (pictures, picture_model), "ffnn": (f"--data={tmp_path / 'X.npy'}", feature_model)}[command]
    words = (command, inputs[0], "--model", inputs[1], "--quiet", "--report")
    assert cli(*words, page).status == 0
    text = page.read_text(encoding="utf-8")
    assert "predicted" in text and "argmax" in text and "Roofline" in text
    assert cli(*words, tmp_path / "missing" / "report.html").status == 2
