"""`trninfer ffnn`, from feature files to reports."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trninfer.models import load_model, run_network

N, D, H, C = 5, 6, 8, 3


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((N, D)).astype(np.float32)


@pytest.fixture
def data(rows: np.ndarray, tmp_path: Path) -> Path:
    rows.tofile(tmp_path / "X.bin")
    return tmp_path / "X.bin"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Return a folder of raw weights in the format of the lab."""
    random = np.random.default_rng(4)
    folder = tmp_path / "lab"
    folder.mkdir()
    for name, shape in (("W1", (D, H)), ("b1", H), ("W2", (H, C)), ("b2", C)):
        random.standard_normal(shape).astype("<f4").tofile(folder / f"{name}.bin")
    return folder


def numpy_classes(x: np.ndarray, folder: Path) -> np.ndarray:
    w1, b1, w2, b2 = (np.fromfile(folder / f"{name}.bin", "<f4") for name in ("W1", "b1", "W2", "b2"))
    return np.argmax(np.maximum(x @ w1.reshape(D, H) + b1, 0) @ w2.reshape(H, C) + b2, axis=1)


def test_raw_weights(cli, data, lab, rows) -> None:
    outcome = cli("ffnn", "--data", data, "--weights", lab, "--format", "json", "--verify")
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"]
    assert [answer["input"] for answer in report["predictions"]] == list(range(N))
    assert [answer["class_index"] for answer in report["predictions"]] == numpy_classes(rows, lab).tolist()
    assert [layer["kernel"] for layer in report["layers"]] == [
        "run_network", "dense", "dense",
    ]  # fmt: skip
    for answer in report["predictions"]:
        assert sum(chance["probability"] for chance in answer["top"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("form", ["bin", "npy", "npz", "csv"])
def test_forms_of_features(cli, feature_model, rows, tmp_path, form) -> None:
    path = tmp_path / f"X.{form}"
    if form == "bin":
        rows.astype("<f4").tofile(path)
    elif form == "npy":
        np.save(path, np.asfortranarray(rows.astype(np.float64)))
    elif form == "npz":
        np.savez_compressed(path, x=rows, other=np.zeros(3))
    else:
        np.savetxt(path, rows, delimiter=",", header="a,b,c,d,e,f", comments="")
    report = cli("ffnn", "--data", path, "--model", feature_model, "--format", "json").json()
    model = load_model(feature_model)
    golden = run_network(model.network, model.tensors, rows).probabilities.argmax(axis=1)
    assert [answer["label"] for answer in report["predictions"]] == [model.network.labels[i] for i in golden]


def test_labels_score_the_answers(cli, data, lab, rows, tmp_path) -> None:
    truth = numpy_classes(rows, lab).astype("<i4")
    truth[0] = (truth[0] + 1) % C
    truth.tofile(tmp_path / "Y.bin")
    outcome = cli("ffnn", "--data", data, "--weights", lab, "--labels", tmp_path / "Y.bin", "--format", "json")
    score = outcome.json()["score"]
    assert (score["correct"], score["total"], score["accuracy"]) == (N - 1, N, (N - 1) / N)
    assert outcome.status == 0
    assert "score: 4 of 5 correct, 80.00 %" in cli(
        "ffnn", "--data", data, "--weights", lab, "--labels", tmp_path / "Y.bin"
    ).out  # fmt: skip


def test_only_the_table_shortens_large_batches(cli, feature_model, tmp_path) -> None:
    np.zeros((25, D), "<f4").tofile(tmp_path / "X.bin")
    arguments = ("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model)
    assert "... and 15 more rows" in cli(*arguments).out
    assert len(list(csv.reader(io.StringIO(cli(*arguments, "--format", "csv").out)))) == 26


def spoil(folder: Path, name: str, count: int) -> None:
    np.zeros(count, "<f4").tofile(folder / f"{name}.bin")


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("W1", D * H + 1, "W1.bin has 49 numbers, not a multiple of the 8 in b1.bin"),
        ("W2", H * C + 2, "W2.bin has 26 numbers, but b1.bin has 8 and b2.bin 3, which requires 24"),
        ("b1", 0, "b1.bin: 0 bytes; expected a positive multiple of 4 (float32)"),
        (
            "W1",
            (D + 1) * H,
            "X.bin: its size, 120 bytes, is not a multiple of 28 bytes, the size of a row of 7 float32 values",
        ),
    ],
)
def test_weights_that_do_not_fit(cli, data, lab, name, count, message) -> None:
    spoil(lab, name, count)
    outcome = cli("ffnn", "--data", data, "--weights", lab)
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


def test_wrong_uses(cli, data, lab, feature_model, picture_model, rows, tmp_path) -> None:
    (lab / "b2.bin").unlink()
    np.array([7] * N, "<i4").tofile(tmp_path / "Y.bin")
    broken = rows.copy()
    broken[3, 2] = np.nan
    broken.tofile(tmp_path / "nan.bin")
    wrong = {
        "b2.bin: no such file": ("--data", data, "--weights", lab),
        "--weights and --model both specify a network": ("--data", data, "--weights", lab, "--model", feature_model),
        "use trninfer classify": ("--data", data, "--model", picture_model),
        "missing.bin: no such file": ("--data", tmp_path / "missing.bin", "--model", feature_model),
        "not a regular file": ("--data", tmp_path, "--model", feature_model),
        "row 0 has the label 7; 0 to 2": ("--data", data, "--labels", tmp_path / "Y.bin", "--model", feature_model),
        "int32 labels for 5 rows take 20": ("--data", data, "--labels", data, "--model", feature_model),
        "Missing option '--data'": (),
    }
    (tmp_path / "folder.bin").mkdir()
    wrong["not a regular file"] = ("--data", tmp_path / "folder.bin", "--model", feature_model)
    for message, arguments in wrong.items():
        outcome = cli("ffnn", *arguments)
        assert outcome.status == 2 and message in outcome.err, outcome
        assert len(outcome.err.splitlines()) == 1 and outcome.out == ""


@pytest.mark.parametrize("option", ["--output", "--trace", "--report"])
def test_input_file_is_not_overwritten(cli, data, lab, option) -> None:
    for taken in (data, lab / "b1.bin"):
        before = taken.read_bytes()
        outcome = cli("ffnn", "--data", data, "--weights", lab, option, taken)
        assert outcome.status == 2 and f"{option} {taken}: this file is read as input" in outcome.err
        assert taken.read_bytes() == before


def test_overflow_in_half_precision_is_one_line(cli, feature_model, tmp_path) -> None:
    np.full((1, D), 1e9, "<f4").tofile(tmp_path / "X.bin")
    outcome = cli("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, "--dtype", "float16")
    assert outcome.status == 2 and "not finite in float16" in outcome.err and len(outcome.err.splitlines()) == 1


def test_bundled_network_on_its_held_out_rows(cli, request) -> None:
    samples = request.config.rootpath / "samples"
    outcome = cli(
        "ffnn", "--data", samples / "digits-X.bin", "--labels", samples / "digits-Y.bin", "--verify", "--format", "json"
    )
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"] and report["score"]["accuracy"] >= 0.97


def test_headers_of_tables_are_reported(cli, feature_model, rows, tmp_path) -> None:
    body = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    (tmp_path / "X.csv").write_text("0,1,2,3,4,5\n" + body)
    arguments = ("ffnn", "--data", tmp_path / "X.csv", "--model", feature_model, "--format", "csv")
    outcome = cli(*arguments)
    assert len(outcome.out.splitlines()) == 1 + N
    told = (
        f'trninfer: {tmp_path / "X.csv"}: line 1 (0, 1, 2, 3, 4, 5) is read as a header; header "no" reads it as a row'
    )
    assert told in outcome.err.splitlines()
    assert len(cli(*arguments, "--header", "no").out.splitlines()) == 2 + N
    assert "header" not in cli(*arguments, "--quiet").err


def test_right_classes_by_name(cli, feature_model, data, tmp_path) -> None:
    report = cli("ffnn", "--data", data, "--model", feature_model, "--format", "json").json()
    (tmp_path / "y.csv").write_text("label\n" + "".join(f"{answer['label']}\n" for answer in report["predictions"]))
    scored = cli("ffnn", "--data", data, "--model", feature_model, "--format", "json", "--labels", tmp_path / "y.csv")
    assert scored.json()["score"]["correct"] == N


def test_features_that_are_scaled_otherwise_are_reported(cli, tmp_path) -> None:
    samples = Path(__file__).parents[2] / "samples" / "digits-X.bin"
    rows = np.fromfile(samples, "<f4").reshape(-1, 64)[:30]
    np.save(tmp_path / "X.npy", np.rint(rows * 255 / 16).astype(np.uint8))
    told = "the features lie between 0 and 255, but digits-ffnn was trained on 0 to 16"
    assert told in cli("ffnn", "--data", tmp_path / "X.npy").err
    np.save(tmp_path / "X.npy", rows)
    assert cli("ffnn", "--data", tmp_path / "X.npy").err == ""


def test_rows_that_cannot_be_used_are_reported_and_the_others_answered(cli, feature_model, rows, tmp_path) -> None:
    expected = cli("ffnn", "--data", write(tmp_path, rows), "--model", feature_model, "--format", "json").json()
    rows = rows.copy()
    rows[1, 4], rows[4, 0] = np.nan, np.inf
    arguments = ("ffnn", "--data", write(tmp_path, rows), "--model", feature_model, "--batch-size", 2)
    outcome = cli(*arguments, "--format", "json", "--quiet", "--verify")
    report = outcome.json()
    assert outcome.status == 2 and report["verify"]["passed"]
    assert [answer["input"] for answer in report["predictions"]] == [0, 2, 3]
    assert all(answer["label"] == expected["predictions"][answer["input"]]["label"] for answer in report["predictions"])
    assert report["errors"] == [
        {"input": row, "message": f"column {column} is {value}; all values must be finite in float32"}
        for row, column, value in ((1, 4, "nan"), (4, 0, "inf"))
    ]
    assert outcome.err.splitlines() == [
        f"trninfer: row {error['input']}: {error['message']}" for error in report["errors"]
    ]
    target = tmp_path / "o.csv"
    arguments = (*arguments, "--format", "csv", "--output", target, "--resume", "--quiet")
    assert cli(*arguments).status == 2
    first = target.read_text()
    assert [line.partition(",")[0] for line in first.splitlines()] == ["input", "0", "2", "3", "1", "4"]
    target.write_text("".join(first.splitlines(True)[:2]))
    assert cli(*arguments).status == 2 and target.read_text() == first


def test_a_file_of_something_else_is_refused(cli, feature_model, tmp_path) -> None:
    path = write(tmp_path, np.full((2000, D), np.nan, np.float32))
    outcome = cli("ffnn", "--data", path, "--model", feature_model, "--quiet")
    (line,) = outcome.err.splitlines()
    assert outcome.status == 2 and line.startswith(f"trninfer: {path}: more than 1000 rows cannot be used; row 1000: ")


def write(folder: Path, rows: np.ndarray) -> Path:
    rows.astype("<f4").tofile(folder / "X.bin")
    return folder / "X.bin"


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_a_row_that_overflows_is_named_and_the_others_are_answered(cli, feature_model, tmp_path, batch_size) -> None:
    rows = np.random.default_rng(0).standard_normal((7, D)).astype("<f4")
    expected = _classes(cli, feature_model, tmp_path, rows[[0, 1, 2, 3, 5, 6]], batch_size)
    rows[4] = 1e9
    rows.tofile(tmp_path / "X.bin")
    options = ("--dtype", "float16", "--format", "json", "--batch-size", batch_size)
    outcome = cli("ffnn", "--data", tmp_path / "X.bin", "--model", feature_model, *options)
    report = outcome.json()
    assert [each["input"] for each in report["predictions"]] == [0, 1, 2, 3, 5, 6]
    assert [each["class_index"] for each in report["predictions"]] == expected
    assert [error["input"] for error in report["errors"]] == [4]
    assert "not finite in float16" in report["errors"][0]["message"] and outcome.status == 2


def _classes(cli, model, folder, rows, batch_size) -> list[int]:
    rows.tofile(folder / "fine.bin")
    options = ("--dtype", "float16", "--format", "json", "--batch-size", batch_size)
    report = cli("ffnn", "--data", folder / "fine.bin", "--model", model, *options).json()
    return [each["class_index"] for each in report["predictions"]]


def table_of(rows: np.ndarray, truth: list[int]) -> str:
    lines = [
        ",".join((f"doc{number}", *map(str, row), f"c{right}")) for number, (row, right) in enumerate(zip(rows, truth))
    ]
    return "\n".join(["name,a,b,c,d,e,f,class", *lines]) + "\n"


def test_tables_with_ids_and_labels(cli, process, feature_model, rows, tmp_path) -> None:
    model = load_model(feature_model)
    golden = run_network(model.network, model.tensors, rows).probabilities.argmax(axis=1)
    labels = model.network.labels
    truth = [int(found) for found in golden[:-1]] + [(int(golden[-1]) + 1) % len(labels)]
    text = table_of(rows, truth)
    for number, label in enumerate(labels):
        text = text.replace(f"c{number}\n", f"{label}\n")
    (tmp_path / "x.csv").write_text(text)
    options = ("--model", feature_model, "--label-column", "class", "--format", "json")
    outcome = cli("ffnn", "--data", tmp_path / "x.csv", *options)
    assert "column 'name' contains text and is used as the id" in outcome.err
    report = outcome.json()
    assert [answer["input"] for answer in report["predictions"]] == [f"doc{number}" for number in range(N)]
    assert (report["score"]["correct"], report["score"]["total"]) == (N - 1, N)
    assert "used as the id" not in cli("ffnn", "--data", tmp_path / "x.csv", *options, "-q").err
    outcome = cli("ffnn", "--data", tmp_path / "x.csv", "--model", feature_model)
    assert (
        outcome.status == 2
        and "exclude columns that are not features with --drop, --id or --label-column" in outcome.err
    )
    outcome = cli("ffnn", "--data", tmp_path / "x.csv", *options, "--labels", tmp_path / "x.csv")
    assert outcome.status == 2 and "--labels and --label-column both" in outcome.err
    piped = process("ffnn", "--data", "-", *options, "--id", "name", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found, _ = piped.communicate(text.encode())
    assert json.loads(found)["predictions"] == report["predictions"]


def test_empty_standard_input_is_refused_in_one_line(cli, feature_model, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    outcome = cli("ffnn", "--data", "-", "--model", feature_model)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "trninfer: --data -: standard input is empty\n"
