"""`trninfer bench --compare`: changes, regressions, and baselines of a different subject."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.app.errors import UsageError
from trninfer.app.reports.regression import MAX_BYTES, compare_documents, parse_threshold, read_baseline
from trninfer.runtime.measure import suites


@pytest.fixture
def baseline(cli, feature_model, tmp_path) -> Path:
    """Return the saved benchmark of the small network."""
    path = tmp_path / "baseline.json"
    assert cli("bench", "--model", feature_model, "--format", "json", "--output", path).status == 0
    return path


def change(path: Path, edit) -> Path:
    """Edit the document in the file."""
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    return path


def scale(name: str, factor: float):
    """Return an edit that multiplies the time of a row."""

    def edit(document) -> None:
        (row,) = [row for row in document["layers"] if row["name"] == name]
        row["latency_us"] *= factor

    return edit


def test_a_bench_is_as_fast_as_itself(cli, feature_model, baseline) -> None:
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--threshold", "0%", "--format", "json")
    section = outcome.json()["compare"]
    assert outcome.status == 0 and section["passed"] and section["change"] == 0
    assert {row["status"] for row in section["rows"]} == {"same"}
    assert [row["name"] for row in section["rows"]] == [row["name"] for row in outcome.json()["layers"]]


def test_a_regression_fails_and_is_named(cli, feature_model, baseline) -> None:
    change(baseline, scale("hidden", 0.9))
    arguments = ("bench", "--model", feature_model, "--compare", baseline)
    outcome = cli(*arguments, "--threshold", "10%", "--format", "json")
    row = next(row for row in outcome.json()["compare"]["rows"] if row["name"] == "hidden")
    assert outcome.status == 1 and row["status"] == "regression" and row["change"] == pytest.approx(1 / 0.9 - 1)
    assert outcome.json()["compare"]["threshold"] == 0.1
    table = cli(*arguments)
    assert table.status == 1 and max(map(len, table.out.splitlines())) <= 80
    assert "compare FAILED: more than 5 % slower: hidden" in table.out and "+11.11 %" in table.out
    assert cli(*arguments, "--threshold", "12%").status == 0
    quiet = cli(*arguments, "--quiet", "--format", "csv")
    assert quiet.status == 1 and quiet.err == "" and quiet.out.startswith("name,kernel,")


def test_faster_is_no_failure(cli, feature_model, baseline) -> None:
    change(baseline, scale("hidden", 2))
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--threshold", "0%")
    assert outcome.status == 0 and "-50.00 %" in outcome.out and "compare passed" in outcome.out


def test_many_small_losses_do_not_pass_as_a_total(cli, feature_model, baseline) -> None:
    """The time of a removed row is missing from the rows but not from the total."""

    def edit(document) -> None:
        document["layers"] = document["layers"][1:]

    change(baseline, edit)
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--format", "json")
    section = outcome.json()["compare"]
    assert outcome.status == 1 and section["rows"][0]["status"] == "added" and section["rows"][0]["change"] is None
    assert not any(row["status"] == "regression" for row in section["rows"]) and section["change"] > 0.05


def test_removed_rows_are_reported_in_their_place(cli, feature_model, baseline) -> None:
    def edit(document) -> None:
        old = {**document["layers"][1], "name": "old.step", "latency_us": 1.0}
        document["layers"].insert(2, old)

    change(baseline, edit)
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--format", "json")
    rows = outcome.json()["compare"]["rows"]
    assert outcome.status == 0 and (rows[2]["name"], rows[2]["status"], rows[2]["latency_us"]) == (
        "old.step", "removed", None,
    )  # fmt: skip
    assert "old.step removed" in cli("bench", "--model", feature_model, "--compare", baseline).out


def test_ndjson_has_the_comparison_in_a_line(cli, feature_model, baseline) -> None:
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--format", "ndjson")
    lines = {line["type"]: line for line in map(json.loads, outcome.out.splitlines())}
    assert lines["compare"]["passed"] and lines["bench"]["batch_size"] == 1 and "summary" in lines


def test_a_suite_is_compared_by_its_cases(cli, monkeypatch, tmp_path) -> None:
    sides: dict[str, int | str] = {"m": 64, "n": 64}
    case = suites.SuiteCase("s", "one", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", "")
    monkeypatch.setattr(suites, "_cases", lambda: (case,))
    path = tmp_path / "suite.json"
    cli("bench", "--suite", "s", "--format", "json", "--output", path)

    def edit(document) -> None:
        document["suite"][0]["predicted_us"] /= 2

    change(path, edit)
    outcome = cli("bench", "--suite", "s", "--compare", path, "--format", "json")
    assert outcome.status == 1 and outcome.json()["compare"]["rows"][0]["change"] == pytest.approx(1)
    kernel = cli("bench", "--kernel", "transpose", "--shape", "m=64,n=64", "--compare", path)
    assert kernel.status == 2 and "only one of them is of a suite" in kernel.err


@pytest.mark.parametrize(
    ("arguments", "message", "an_input"),
    [
        (("--model", "MODEL", "--dtype", "bfloat16"), "dtype bfloat16, but float32 in the baseline", False),
        (("--model", "MODEL", "--target", "trn1"), "target trn1, but trn2 in the baseline", False),
        (("--model", "MODEL", "--batch-size", "4"), "batch size 4, but 1 in the baseline", True),
        (("--model", "digits-ffnn"), "model digits-ffnn, but tiny-ffnn in the baseline", False),
    ],
)
def test_differing_settings_are_reported_and_the_rest_is_compared(
    cli, feature_model, baseline, arguments, message, an_input
) -> None:
    words = [feature_model if word == "MODEL" else word for word in arguments]
    outcome = cli("bench", *words, "--compare", baseline, "--threshold", "0%", "--format", "json")
    section = outcome.json()["compare"]
    assert outcome.status == 0 and section["passed"] and section["an_input"] == an_input
    assert section["differences"] == [message]
    assert bool(section["rows"]) == ("digits-ffnn" not in words)
    before = json.loads(baseline.read_text())["total_us"]
    inputs = 4 if an_input else 1
    assert section["change"] == pytest.approx(outcome.json()["total_us"] / inputs / before - 1)
    assert sum(section["critical"].values()) == pytest.approx(section["change"] * before, abs=1e-3)
    assert f"the benches differ: {message}" in " ".join(cli("bench", *words, "--compare", baseline).out.split())


@pytest.mark.parametrize(
    "message", ["kernel argmax, but none in the baseline", "shape n=4,c=8, but none in the baseline"]
)
def test_incomparable_baseline_is_refused(cli, baseline, message) -> None:
    outcome = cli("bench", "--kernel", "argmax", "--shape", "n=4,c=8", "--compare", baseline)
    assert outcome.status == 2 and outcome.out == "" and len(outcome.err.splitlines()) == 1
    assert "the benches differ" in outcome.err and message in outcome.err


def test_a_change_is_reported_by_the_resources_it_is_due_to(cli, feature_model, baseline) -> None:
    def edit(document) -> None:
        row = document["layers"][0]
        row["critical"]["launch"] -= 1.0
        row["latency_us"] -= 1.0

    change(baseline, edit)
    outcome = cli("bench", "--model", feature_model, "--compare", baseline)
    assert outcome.status == 1 and "REGRESSION: launch +1.00 us" in " ".join(outcome.out.split())
    assert "slower: launch (launch +1.00 us)" in " ".join(outcome.out.split())
    row = cli("bench", "--model", feature_model, "--compare", baseline, "--format", "json").json()["compare"]["rows"][0]
    assert row["critical"]["launch"] == pytest.approx(1.0)


def test_differences_that_round_to_zero_are_equal(cli, feature_model, baseline) -> None:
    def edit(document) -> None:
        for row in document["layers"]:
            row["latency_us"] /= 1 + 1e-5

    change(baseline, edit)
    outcome = cli("bench", "--model", feature_model, "--compare", baseline, "--threshold", "0%", "--format", "json")
    assert outcome.status == 0
    assert {row["status"] for row in outcome.json()["compare"]["rows"]} == {"same"}


def test_a_kernel_at_another_shape_is_another_bench(cli, tmp_path) -> None:
    """Both have the same input and output."""
    path = tmp_path / "conv.json"
    shape = "batch=1,cin=4,cout=8,h=12,w=12"
    cli("bench", "--kernel", "conv2d", "--shape", f"{shape},k=1", "--format", "json", "--output", path)
    outcome = cli("bench", "--kernel", "conv2d", "--shape", f"{shape},k=3,padding=1", "--compare", path)
    assert outcome.status == 2 and "k=3,padding=1, but " in outcome.err


def test_a_network_of_the_same_name_with_other_shapes_is_refused(cli, feature_model, baseline) -> None:
    def edit(document) -> None:
        document["layers"][1]["output_shape"] = [1, 99]

    change(baseline, edit)
    outcome = cli("bench", "--model", feature_model, "--compare", baseline)
    assert outcome.status == 2 and "hidden has the output shape 1x8, but 1x99 in the baseline" in outcome.err


def test_measured_is_never_compared_with_predicted(cli, feature_model, baseline) -> None:
    change(baseline, lambda document: document.update(latency_kind="measured"))
    outcome = cli("bench", "--model", feature_model, "--compare", baseline)
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.endswith("its times are measured, but these are predicted; they cannot be compared\n")


def test_ways_to_measure_are_not_compared_either(baseline) -> None:
    document = json.loads(baseline.read_text())
    other = {**document, "latency_label": "measured, device"}
    with pytest.raises(UsageError, match="latency label predicted, but measured, device in the baseline"):
        compare_documents(document, other, baseline, 0.05)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[1, 2", "not JSON"),
        ("\udcff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"schema_version": NaN}', "not JSON"),
        ("[]", "its schema_version is not 1"),
        ('{"schema_version": 2}', "its schema_version is not 1"),
        ('{"schema_version": 1, "command": "classify"}', "it is one of 'classify'"),
        ('{"schema_version": 1, "command": "bench"}', "it lacks the section 'bench'"),
        ('{"schema_version": 1, "command": "bench", "bench": {}}', "its latency_kind is not text"),
    ],
)
def test_files_that_are_no_baseline(cli, tmp_path, text, message) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    outcome = cli("bench", "--compare", path)
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1 and outcome.out == ""


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "not a list of rows"),
        ([1], "not a list of rows"),
        ([{"name": "a"}], "lacks a name or a time"),
        ([{"name": "a", "latency_us": True}], "lacks a name or a time"),
        ([{"name": "a", "latency_us": -1}], "lacks a name or a time"),
        ([{"name": "a", "latency_us": 1}, {"name": "a", "latency_us": 2}], "two rows of its layers have the same name"),
    ],
)
def test_rows_that_cannot_be_compared(cli, baseline, rows, message) -> None:
    change(baseline, lambda document: document.update(layers=rows))
    outcome = cli("bench", "--compare", baseline)
    assert outcome.status == 2 and message in outcome.err


def test_baselines_that_cannot_be_read(cli, tmp_path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for path, message in (
        (tmp_path, "not a regular file"),
        ("/dev/zero", "not a regular file"),
        (tmp_path / "none.json", "cannot be read: No such file"),
        (large, "larger than"),
    ):
        outcome = cli("bench", "--compare", path)
        assert outcome.status == 2 and message in outcome.err and outcome.err.startswith("trninfer: --compare")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=4), st.lists, max_leaves=4), st.data())
def test_no_document_makes_the_reader_fail(tmp_path_factory, value, data) -> None:
    """A valid document in which any value replaces one field is either compared or rejected with a message."""
    row = {"name": "a", "latency_us": 1.0, "input_shape": [1], "output_shape": [1]}
    good = {
        "schema_version": 1, "command": "bench", "bench": {"kernel": None, "shape": None, "batch_size": 1},
        "latency_kind": "predicted", "latency_label": "predicted", "model": "m", "target": "trn2", "dtype": "float32",
        "layers": [row],
    }  # fmt: skip
    bad = json.loads(json.dumps(good))
    place = data.draw(st.sampled_from(["top", "bench", "row"]))
    where = {"top": bad, "bench": bad["bench"], "row": bad["layers"][0]}[place]
    where[data.draw(st.sampled_from([*where, "suite"]))] = value
    path = tmp_path_factory.mktemp("baseline") / "x.json"
    path.write_text(json.dumps(bad))
    try:
        compare_documents(good, read_baseline(path), path, 0.05)
    except UsageError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0%", 0), (" 0.5 % ", 0.005), (".5%", 0.005)])
def test_thresholds(text, value) -> None:
    assert parse_threshold(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "0.05", "-1%", "nan%", "%", "5%%", f"{'9' * 400}%"])
def test_thresholds_that_are_none(cli, baseline, text) -> None:
    outcome = cli("bench", "--compare", baseline, "--threshold", text)
    assert outcome.status == 2 and "--threshold" in outcome.err and outcome.out == ""


def test_a_threshold_needs_a_baseline(cli) -> None:
    outcome = cli("bench", "--threshold", "5%")
    assert outcome.status == 2 and "--threshold needs --compare" in outcome.err
