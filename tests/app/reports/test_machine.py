"""Reports for programs: JSON, NDJSON and CSV."""

import csv
import io
import json
import math

import numpy as np
from report_pages import layer, make_report
from report_schema import SCHEMA, check_schema
from trninfer.app.reports.cells import guard
from trninfer.app.reports.machine import (
    PREDICTION_COLUMNS,
    answer_lines,
    begin,
    chunks,
    end,
    prediction_record,
    render,
    render_rows,
    to_document,
)
from trninfer.app.reports.report import Cores, LayerTable, Nones, Report
from trninfer.inference.predictions import InputNames, LabelProbability, OutputAnswer, Prediction
from trninfer.inference.scoring import Score
from trninfer.inference.search import InputProblem
from trninfer.runtime.floor import Floor
from trninfer.runtime.measure.compare import BackendComparison, ComparedLaunch
from trninfer.runtime.measure.suites import SuiteRow
from trninfer.runtime.session import Result


def answer(name: str | int, label: str = "b") -> Prediction:
    return Prediction(name, label, 1, 0.5, (LabelProbability(label, 1, 0.5),))


def answers_report(*answers: Prediction) -> Report:
    report = Report("classify", "net", "sim", "trn2", "float32", "predicted")
    report.predictions = list(answers)
    return report


def test_json_in_pieces_is_the_json_of_the_document() -> None:
    for count in range(4):
        report = Report("classify", 'a "predictions": [] b', "sim", "trn2", "float32", "predicted")
        report.predictions = [answer(f"n{i}") for i in range(count)]
        text = render(report, "json")
        assert text == json.dumps(to_document(report), indent=2) + "\n"


def test_an_infinite_error_is_null_in_json() -> None:
    row = ComparedLaunch(
        "head.matmul", "matmul_tiled", ((2, 3),), "float32", {}, 9.0, None, None, None, 3.0, math.inf, 1e-4
    )
    result = Result(np.empty(0, np.int32), np.empty((0, 3), np.float32), (), 0.0)
    comparison = BackendComparison(result, (row,), "trn2", "measured, host round trip")
    report = Report("ffnn", "net", "neuron", "trn2", "float32", "measured", comparison=comparison)
    document = json.loads(json.dumps(to_document(report), allow_nan=False))
    assert document["compare_backends"]["rows"][0]["error"] is None and report.exit_status == 1


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_the_document_of_everything() -> None:
    report = make_report(layer(), layer("fc", latency_us=30.0))
    report.tables.append(LayerTable("other", "other/", (layer("fc", latency_us=60.0),), Floor(12.0, "hbm")))
    report.predictions = [answer("a\udcff.png")]
    report.errors = [InputProblem("b\x1b.png", "no\npicture"), InputProblem(3, "nan")]
    report.cores, report.score, report.none = Cores(2, 5.0, (5.0,)), Score(1, 4), Nones("none", 1, 4)
    report.answered_earlier = 7
    document = json.loads(json.dumps(to_document(report), allow_nan=False))
    check_schema(document, SCHEMA)
    assert [(row["name"], row["share"]) for row in document["layers"]] == [
        ("conv", 0.1),
        ("fc", 0.3),
        ("other/fc", 0.6),
    ]
    assert document["total_us"] == 100 and document["latency_label"] == "predicted"
    assert document["floors"] == [
        {"network": "other", "floor_us": 12.0, "bound_by": "hbm", "total_us": 60.0, "times_floor": 5.0}
    ]
    assert document["predictions"][0]["input"] == r"a\xff.png" and "outputs" not in document["predictions"][0]
    assert document["errors"] == [
        {"input": "b\x1b.png", "message": r"no\npicture"}, {"input": 3, "message": "nan"},
    ]  # fmt: skip
    assert {**document["score"], "correct": 1, "total": 4, "accuracy": 0.25} == document["score"]
    assert document["cores"] == {"count": 2, "elapsed_us": 5.0, "worker_us": [5.0]}
    assert document["none"]["count"] == 1 and document["answered_earlier"] == 7


def test_absent_values_have_no_field() -> None:
    document = to_document(make_report(tables=[]))
    asked = {"floors", "agreement", "answered_earlier", "cores", "compare_backends", "score", "none", "advice"}
    assert not (asked | {"lowering", "sweep", "suite"}) & set(document)
    assert document["verify"] is None and document["total_us"] == 0 and document["mfu"] is None


def test_several_inputs_and_outputs_by_name() -> None:
    names = InputNames({"left": "a\udcff.png", "bias": "1,2"})
    outputs = (
        OutputAnswer("b", 1, 0.5, (), None, "chances", "classes", (2,)),
        OutputAnswer(None, None, None, (), (1.5,), "size", "values", (1, 1)),
    )
    record = prediction_record(Prediction(names, "b", 1, 0.5, (), None, outputs))
    assert record["input"] == {"left": r"a\xff.png", "bias": "1,2"}
    assert list(record["outputs"]) == ["chances", "size"] and "name" not in record["outputs"]["size"]
    assert record["outputs"]["size"]["values"] == (1.5,) and record["outputs"]["size"]["shape"] == (1, 1)


def test_lines_are_of_a_type_and_the_last_sums_up() -> None:
    report = make_report(layer(), predictions=[answer("a.png")], errors=[InputProblem("b", "bad")])
    report.suite = [SuiteRow("case", 3.0, 1.5, "student", 2.0, "benchmark")]
    lines = [json.loads(line) for line in render(report, "ndjson").splitlines()]
    # a benchmark itself has no answers, but given answers come first
    assert [line["type"] for line in lines] == ["prediction", "layer", "error", "suite", "summary"]
    assert lines[3] == {"type": "suite", **to_document(report)["suite"][0]}
    assert not {"layers", "errors", "suite", "predictions"} & set(lines[-1]) and lines[-1]["total_us"] == 10


def test_pieces_make_the_whole_in_every_form() -> None:
    report = answers_report(answer("a.png"), answer(3), answer("=x"))
    report.errors = [InputProblem("bad.png", "cut")]
    for form in ("csv", "ndjson"):
        pieces = (
            begin(form, report.command)
            + answer_lines(report.predictions[:2], form)
            + answer_lines(report.predictions[2:], form)
        )
        assert pieces + end(report, form) == "".join(chunks(report, form, iter(report.predictions)))


def test_a_csv_of_answers() -> None:
    values = Prediction(4, None, None, None, (), (0.5, -1e-9))
    report = answers_report(answer('a,"b".png'), answer("=1+1"), values)
    report.errors = [InputProblem("x.png", "truncated")]
    assert rows_of(render(report, "csv")) == [
        list(PREDICTION_COLUMNS),
        ['a,"b".png', "b", "1", "0.5", ""],
        ["=1+1", "b", "1", "0.5", ""],
        ["4", "0.5 -1e-09", "", "", ""],
        ["x.png", "", "", "", "truncated"],
    ]
    assert rows_of(render(report, "csv", guard))[2][0] == "'=1+1"
    assert '"a\rb.png","b"' in answer_lines([answer("a\rb.png")], "csv")  # otherwise some readers end the line there


def test_a_csv_of_a_bench_has_its_layers_and_of_a_suite_its_cases() -> None:
    report = make_report(layer(critical={"tensor": 10.0}), layer("b,c", latency_us=30.0))
    first, second = csv.DictReader(io.StringIO(render(report, "csv")))
    assert (first["name"], first["input_shape"], first["share"], first["latency_us_p99"]) == (
        "conv",
        "1x3x8x8",
        "0.25",
        "",
    )
    assert json.loads(first["critical"]) == {"tensor": 10.0} and second["name"] == "b,c"
    report.suite = [SuiteRow("case", 3.0, None, "none", None, "benchmark")]
    assert rows_of(render(report, "csv")) == [
        ["name", "predicted_us", "published_us", "published_kind", "ratio", "metric", "kernel", "source", "note"],
        ["case", "3.0", "", "none", "", "benchmark", "trninfer's", "", ""],
    ]


def test_plain_records() -> None:
    rows = [{"name": "a", "shape": [1, 2], "more": {"x": 1}}, {"name": "=b", "shape": [], "more": {}}]
    document = json.loads(render_rows(rows, "models", "json"))
    assert document == {"schema_version": 1, "command": "models", "models": rows}
    assert [json.loads(line) for line in render_rows(rows, "models", "ndjson").splitlines()] == rows
    assert rows_of(render_rows(rows, "models", "csv", guard)) == [
        ["name", "shape", "more"], ["a", "[1, 2]", '{"x": 1}'], ["'=b", "[]", "{}"],
    ]  # fmt: skip
    assert render_rows([], "models", "csv") == "\n" and render_rows([], "models", "ndjson") == ""
