"""The command `trninfer bench`: what it measures and writes, and its exit status."""

import json

import pytest
from trninfer.runtime.measure.kernel_cases import kernel_names


@pytest.mark.slow
def test_all_bundled_networks(cli) -> None:
    report = cli("bench", "--format", "json").json()
    names = [layer["name"] for layer in report["layers"]]
    assert report["model"] is None and "digits-ffnn/output" in names and "digits-cnn/conv1" in names
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)
    assert {layer["input_shape"][0] for layer in report["layers"]} == {1}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--target", "trn1"), "--lnc 2 requires trn2 or trn3; a logical core of trn1 consists of one NeuronCore"),
        (("--launches", "layer"), "omit --lnc 2"),
        (("--kernel", "matmul"), "--lnc applies to networks"),
        (("--suite", "all"), "--lnc applies to networks"),
        (("--advise",), "omit --lnc"),
        (("--cores", 2), "omit --lnc"),
    ],
)
def test_options_that_two_cores_do_not_support(cli, arguments, told) -> None:
    outcome = cli("bench", "--lnc", 2, *arguments)
    assert outcome.status == 2 and told in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.slow
def test_two_tables_in_80_columns(cli) -> None:
    outcome = cli("bench")
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80
    assert "digits-ffnn: a batch of 1" in outcome.out and "digits-cnn: a batch of 1" in outcome.out


def test_every_kernel_is_named_in_the_help(cli) -> None:
    text = cli("bench", "--help").out
    assert [name for name in kernel_names() if name not in text] == []


def test_traces(cli, feature_model, tmp_path) -> None:
    trace = tmp_path / "trace.json"
    assert (
        cli("bench", "--model", feature_model, "--trace", trace, "--batch-size", 3, "--launches", "layer").status == 0
    )
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"hidden.matmul", "output.matmul", "argmax"} <= names
    for wrong in (tmp_path, tmp_path / "no" / "folder", "/dev/null"):
        outcome = cli("bench", "--model", feature_model, "--trace", wrong)
        assert outcome.status == 2 and outcome.err.startswith("trninfer: --trace") and outcome.out == ""


def test_times_of_trn3_have_a_warning(cli, feature_model) -> None:
    report = cli("bench", "--model", feature_model, "--target", "trn3", "--format", "json").json()
    assert "scaled from trn2" in report["latency_note"]
    shown = cli("bench", "--model", feature_model, "--target", "trn3").out
    assert report["latency_note"] in " ".join(shown.split())
    assert cli("bench", "--model", feature_model, "--format", "json").json()["latency_note"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "matmul", "--shape", "m=1,k"), "'k' is not of the form key=value"),
        (("--kernel", "matmul", "--shape", "m=1,m=2"), "m is given twice"),
        (("--kernel", "matmul"), "m is missing; its shape is m, k, n, variant=fully_optimized|tiled"),
        (
            ("--kernel", "bias_activation", "--shape", "n=1,h=60000,activation=softmax"),
            "bias_activation on trn2: softmax supports rows of at most",
        ),
        (("--kernel", "gemm"), "unknown kernel 'gemm'"),
        (("--shape", "m=1"), "--shape needs --kernel"),
        (("--kernel", "matmul", "--suite", "x"), "cannot be used together"),
        (("--suite", "no-such"), "unknown suite 'no-such'"),
        (("--suite", "cs149-part1", "--verify"), "--verify and --trace do not support suites"),
        (("--model", "nothing"), "no such model"),
        (("--batch-size", "0"), "'--batch-size': '0' is not an integer from 1 to 65536"),
        (("--target", "trn9"), "trn9"),
    ],
)
def test_wrong_uses(cli, arguments, message) -> None:
    outcome = cli("bench", *arguments)
    assert outcome.status == 2 and message in outcome.err, outcome
    assert len(outcome.err.splitlines()) == 1 and outcome.out == ""


def test_threshold_is_of_a_comparison(cli, feature_model) -> None:
    outcome = cli("bench", "--model", feature_model, "--threshold", "5%")
    assert (outcome.status, outcome.err) == (2, "trninfer: --threshold needs --compare\n")


def test_a_baseline_is_read_before_the_work_and_decides_the_status(cli, feature_model, tmp_path) -> None:
    baseline, page = tmp_path / "baseline.json", tmp_path / "page.html"
    bench = ("bench", "--model", feature_model, "--quiet")
    assert cli(*bench, "--report", page, "--compare", baseline).status == 2 and not page.exists()
    assert cli(*bench, "--format", "json", "--output", baseline).status == 0
    assert cli(*bench, "--compare", baseline, "--threshold", "0%").status == 0
    document = json.loads(baseline.read_text())
    document["layers"][-1]["latency_us"] /= 1.2
    baseline.write_text(json.dumps(document))
    slower = cli(*bench, "--report", page, "--compare", baseline)
    assert slower.status == 1 and "compare FAILED" in slower.out and "compare FAILED" in page.read_text()
    assert cli(*bench, "--compare", baseline, "--threshold", "21%").status == 0
