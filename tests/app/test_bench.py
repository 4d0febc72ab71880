"""`trninfer bench`, `models` and `doctor`."""

import csv
import io
import json
from pathlib import Path

import pytest
from trninfer.app.bench.what_if import parse_constants
from trninfer.app.reports.console import TIGHT
from trninfer.runtime.measure import suites
from trninfer.runtime.measure.kernel_cases import kernel_names
from trninfer.runtime.neuron import environment
from trninfer.simulator.timing.constants import TABLE, TARGETS


def test_all_bundled_networks(cli) -> None:
    report = cli("bench", "--format", "json", "--batch-size", 2).json()
    names = [layer["name"] for layer in report["layers"]]
    assert report["model"] is None and "digits-ffnn/output" in names and "digits-cnn/conv1" in names
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)
    assert report["layers"][0]["input_shape"][0] == 2 or report["layers"][0]["input_shape"][-1] == 2


def test_one_model(cli, picture_model) -> None:
    report = cli("bench", "--model", picture_model, "--format", "json", "--verify").json()
    assert [layer["name"] for layer in report["layers"]][-1] == "head"
    assert report["verify"]["passed"] and report["predictions"] == []


def test_two_cores(cli, tmp_path) -> None:
    outcome = cli(
        "bench", "--model", "digits-cnn", "--batch-size", 6, "--lnc", 2, "--verify", "--trace", tmp_path / "t"
    )
    assert outcome.status == 0 and "on trn2 with LNC 2 in float32" in outcome.out and "verify passed" in outcome.out
    assert "core 1 Tensor Engine" in (tmp_path / "t").read_text()
    one, two = (cli("bench", "--batch-size", 6, "--lnc", lnc, "--format", "json").json() for lnc in (1, 2))
    assert (one["lnc"], two["lnc"]) == (1, 2) and two["total_us"] < one["total_us"]
    assert "what two cores take to meet" in two["latency_note"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--target", "trn1"), "a logical core of trn1 has one NeuronCore; --lnc 2 is for trn2 and trn3"),
        (("--launches", "layer"), "leave out --lnc 2"),
        (("--kernel", "matmul"), "--lnc is for networks"),
        (("--suite", "all"), "--lnc is for networks"),
        (("--advise",), "leave out --lnc"),
        (("--cores", 2), "leave out --lnc"),
    ],
)
def test_what_two_cores_do_not_run(cli, arguments, told) -> None:
    outcome = cli("bench", "--lnc", 2, *arguments)
    assert outcome.status == 2 and told in outcome.err and outcome.err.count("\n") == 1


def test_the_forms_of_convolutions(cli) -> None:
    layers = cli("bench", "--model", "digits-cnn", "--format", "json").json()["layers"]
    forms = {layer["name"]: layer["form"] for layer in layers}
    assert forms["launch"] is None and forms["output"] is None
    assert (forms["conv1"], forms["conv4"]) == ("direct, 9 taps a matmul", "direct, 2 taps a matmul")
    assert "direct, 9 taps a matmul: conv1\n" in cli("bench", "--model", "digits-cnn").out


def test_two_tables_in_80_columns(cli) -> None:
    outcome = cli("bench")
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80
    assert "digits-ffnn: a batch of 1" in outcome.out and "digits-cnn: a batch of 1" in outcome.out


def test_a_kernel_at_a_shape(cli) -> None:
    shape = "batch=1,cin=4,cout=8,h=12,w=12,k=3,pool=2"
    report = cli("bench", "--kernel", "conv2d", "--shape", shape, "--format", "json", "--verify").json()
    (layer,) = report["layers"]
    assert (layer["kernel"], layer["input_shape"], layer["output_shape"], layer["share"]) == (
        "fused_conv2d_maxpool", [1, 4, 12, 12], [1, 8, 5, 5], 1,
    )  # fmt: skip
    assert report["model"] is None and report["verify"]["passed"]


def test_every_kernel_is_named_in_the_help(cli) -> None:
    text = cli("bench", "--help").out
    assert [name for name in kernel_names() if name not in text] == []


def test_csv_has_the_layers(cli, feature_model) -> None:
    outcome = cli("bench", "--model", feature_model, "--format", "csv", "--batch-size", 3)
    first = next(csv.DictReader(io.StringIO(outcome.out)))
    assert (first["name"], first["input_shape"], first["latency_us_p99"]) == ("launch", "3x6", "")


def test_a_suite(cli, monkeypatch) -> None:
    sides: dict[str, int | str] = {"m": 64, "n": 64}
    cases = (
        suites.SuiteCase("s", "old", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", ""),
        suites.SuiteCase("s", "new", "transpose", sides, "float16", "trn2", "benchmark", None, "none", ""),
    )
    monkeypatch.setattr(suites, "_cases", lambda: cases)
    outcome = cli("bench", "--suite", "s", "--format", "json")
    report = outcome.json()
    first, second = report["suite"]
    assert (report["model"], report["target"], report["dtype"]) == ("s", "trn1,trn2", "float32,float16")
    assert first["ratio"] == pytest.approx(first["predicted_us"] / 10) and second["ratio"] is None
    table = cli("bench", "--suite", "s")
    assert "published us" in table.out and max(map(len, table.out.splitlines())) <= 80
    ignoring = cli("bench", "--suite", "s", "--target", "trn3", "--batch-size", 2, "--dtype", "float16")
    assert ignoring.status == 0 and ignoring.out.split("backend sim")[0] == table.out.split("backend sim")[0]
    assert "--dtype, --batch-size, --target: no effect on a suite, whose cases have their own" in ignoring.err
    assert [row["metric"] for row in report["suite"]] == ["benchmark", "benchmark"] and "metric" in table.out
    assert cli("bench", "--suite", "s", "--format", "csv").out.startswith("name,predicted_us,published_us,")


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


def test_times_of_trn3_come_with_their_warning(cli, feature_model) -> None:
    report = cli("bench", "--model", feature_model, "--target", "trn3", "--format", "json").json()
    assert "scaled from trn2" in report["latency_note"]
    assert report["latency_note"] in cli("bench", "--model", feature_model, "--target", "trn3").out.replace("\n", " ")
    assert cli("bench", "--model", feature_model, "--format", "json").json()["latency_note"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "matmul", "--shape", "m=1,k"), "'k' is not of the form key=value"),
        (("--kernel", "matmul", "--shape", "m=1,m=2"), "m is given twice"),
        (("--kernel", "matmul"), "m is missing; its shape is m, k, n, variant=fully_optimized|tiled"),
        (
            ("--kernel", "bias_activation", "--shape", "n=1,h=60000,activation=softmax"),
            "bias_activation on trn2: softmax takes rows of at most",
        ),
        (("--kernel", "gemm"), "unknown kernel 'gemm'"),
        (("--shape", "m=1"), "--shape needs --kernel"),
        (("--kernel", "matmul", "--suite", "x"), "exclude each other"),
        (("--suite", "no-such"), "no suite 'no-such'"),
        (("--suite", "cs149-part1", "--verify"), "a suite is timed only"),
        (("--model", "nothing"), "no such model"),
        (("--batch-size", "0"), "'--batch-size': '0' is no whole number from 1 to 65536"),
        (("--target", "trn9"), "trn9"),
    ],
)
def test_wrong_uses(cli, arguments, message) -> None:
    outcome = cli("bench", *arguments)
    assert outcome.status == 2 and message in outcome.err, outcome
    assert len(outcome.err.splitlines()) == 1 and outcome.out == ""


def test_what_if_the_machine_were_another(cli) -> None:
    shape = ("bench", "--kernel", "vector_add", "--shape", "n=1280000")
    plain = cli(*shape, "--format", "json").json()
    faster = cli(*shape, "--format", "json", "--set", "dma_sustained=500", "--set", "launch_ns=0").json()
    assert faster["total_us"] < plain["total_us"]
    told = cli(*shape, "--set", "dma_sustained=500")
    assert "another machine than trn2: dma_sustained = 500 (not 368)" in told.out + told.err
    assert cli(*shape, "--format", "json").json()["total_us"] == plain["total_us"]
    wrong = {
        "dma_sustained": "name=value",
        "no_such=1": "no constant",
        **dict.fromkeys(("launch_ns=x", "launch_ns=1_0", "launch_ns=\u0661\u0662"), "a number"),
    }
    for given, message in wrong.items():
        refused = cli(*shape, "--set", given)
        assert refused.status == 2 and message in refused.err


def test_constants_come_from_a_file(cli, tmp_path) -> None:
    shape = ("bench", "--kernel", "vector_add", "--shape", "n=1280000", "--format", "json")
    file = tmp_path / "machine.json"

    def total(content: object, *more: str) -> float:
        file.write_text(json.dumps(content), encoding="utf-8")
        return cli(*shape, "--set", f"@{file}", *more).json()["total_us"]

    faster = cli(*shape, "--set", "dma_sustained=500").json()["total_us"]
    assert total({"dma_sustained": 500}) == total({"trn2": {"dma_sustained": 500}, "trn1": {}}) == faster
    assert total({"dma_sustained": 100}, "--set", "dma_sustained=500") == faster
    assert total({"trn1": {"dma_sustained": 500}}) == cli(*shape).json()["total_us"]
    for content, message in (
        ("{", "is no JSON"),
        ("[1]", "must be an object of constants"),
        ('{"launch_ns": "1"}', "launch_ns must be a number, came '1'"),
        ('{"trn2": {"launch_ns": true}}', "trn2: launch_ns must be a number, came True"),
        ('{"no_such": 1}', "no constant"),
    ):
        file.write_text(content, encoding="utf-8")
        refused = cli(*shape, "--set", f"@{file}")
        assert refused.status == 2 and message in refused.err, refused
        assert len(refused.err.splitlines()) == 1 and refused.out == ""
    assert "none.json: no such file" in cli(*shape, "--set", f"@{tmp_path / 'none.json'}").err


def test_the_earlier_constants_name_every_constant() -> None:
    file = Path(__file__).parents[2] / "benchmarks" / "data" / "earlier-constants.json"
    earlier = parse_constants([f"@{file}"])
    assert {target: set(values) for target, values in earlier.items()} == {key: set(TABLE) for key in TARGETS}


def test_quiet_alone_would_tell_nothing(cli, feature_model) -> None:
    outcome = cli("bench", "--quiet", "--model", feature_model)
    assert outcome.status == 2 and "--quiet leaves nothing of a bench to tell" in outcome.err
    assert "verify passed" in cli("bench", "--quiet", "--verify", "--model", feature_model).out
    assert cli("bench", "--quiet", "--format", "csv", "--model", feature_model).out.startswith("name,kernel")


@pytest.mark.parametrize("width", [40, 50, 60, 79])
def test_tables_fit_narrow_windows(cli, picture_model, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = cli("bench", "--model", picture_model).out
    assert max(map(len, told.splitlines())) <= width and "predicted us" in told.replace("predicted\n", "predicted")
    assert ("columns shows shapes" in " ".join(told.split())) == (width < TIGHT)


@pytest.mark.parametrize("width", ["\u00b2", "-5", "", "9" * 30, "x"])
def test_a_width_that_is_none(cli, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "digits-ffnn" in cli("models").out


def test_models_as_csv_hold_json_not_python(cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("models", "--format", "csv").out)))
    assert all(json.loads(row["accuracy"])[0]["total"] > 0 for row in rows)


def test_models(cli) -> None:
    rows = json.loads(cli("models", "--format", "json").out)["models"]
    assert {"digits-ffnn", "digits-cnn"} <= {row["name"] for row in rows}
    assert all(row["accuracy"] and row["parameters"] > 0 for row in rows)
    assert max(map(len, cli("models").out.splitlines())) <= 80


def test_a_narrow_window_has_a_line_for_each_value_and_breaks_no_words(cli, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for command, told in (("models", "  parameters: 19,210"), ("doctor", "  status: ok")):
        lines = cli(command).out.splitlines()
        assert max(map(len, lines)) <= 40 and told in lines
    assert "https://pip.repos.neuron.amazonaws.com" in cli("doctor").out


def test_doctor(cli, monkeypatch) -> None:
    placeholder = environment.Package("nki", "0.0.1", "placeholder", "0.7")
    others = tuple(package for package in environment.neuron_packages() if package.name != "nki")
    monkeypatch.setattr(environment, "neuron_packages", lambda: (placeholder, *others))
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    rows = {row["check"]: row for row in json.loads(cli("doctor", "--format", "json").out)["doctor"]}
    assert rows["nki"]["status"] == "wrong" and "WRONG PACKAGE" in rows["nki"]["detail"]
    assert rows["neuron device"]["status"] == "missing"
    assert rows["backend auto"]["detail"].startswith("sim: no Neuron device")
    assert "pip install" in rows["to use it on the Deep Learning AMI Neuron torch-neuronx 2.14.0"]["detail"]
    outcome = cli("doctor")
    assert outcome.status == 0 and max(map(len, outcome.out.splitlines())) <= 80


def test_doctor_tells_of_a_target_that_is_none(cli, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    outcome = cli("doctor", "--format", "csv")
    row = next(row for row in csv.DictReader(io.StringIO(outcome.out)) if row["check"] == "target")
    assert outcome.status == 0 and row["status"] == "wrong" and "trn9" in row["detail"]
    wrong = cli("bench", "--kernel", "argmax", "--shape", "n=1,c=8")
    assert wrong.status == 2 and "NEURON_PLATFORM_TARGET_OVERRIDE" in wrong.err
