"""`trninfer classify`, from pictures to reports."""

import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_inputs import draw_picture
from trninfer.models import load_model
from trninfer.runtime import verify

ROWS = ["launch", "conv", "head"]


def test_json(cli, pictures, picture_model) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "json", "--verify")
    report = outcome.json()
    assert outcome.status == 0
    assert [answer["input"] for answer in report["predictions"]] == [str(pictures / f"{i}.png") for i in range(3)]
    assert [layer["name"] for layer in report["layers"]] == ROWS
    assert report["layers"][0]["input_shape"] == [3, 1, 16, 16]
    assert report["layers"][1]["output_shape"] == [3, 4, 8, 8]
    assert report["total_us"] == pytest.approx(sum(layer["latency_us"] for layer in report["layers"]))
    assert report["total_us"] > 0
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)
    assert (report["command"], report["model"], report["backend"]) == ("classify", "tiny-cnn", "sim")
    assert (report["target"], report["dtype"], report["latency_kind"]) == ("trn2", "float32", "predicted")
    assert report["verify"]["passed"] and report["errors"] == []
    for answer in report["predictions"]:
        best = answer["top"][0]
        assert (best["label"], best["probability"]) == (answer["label"], answer["probability"])
        assert answer["label"] == str(answer["class_index"]) and len(answer["top"]) == 5


def test_batches_do_not_change_answers(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "json")
    one, all_at_once = cli(*arguments, "--batch-size", 2).json(), cli(*arguments).json()
    assert [a["label"] for a in one["predictions"]] == [a["label"] for a in all_at_once["predictions"]]
    assert one["layers"][0]["input_shape"] == all_at_once["layers"][0]["input_shape"]


@pytest.mark.parametrize(("dtype", "target"), [("bfloat16", "trn1"), ("float16", "trn3")])
def test_dtype_and_target(cli, pictures, picture_model, dtype, target) -> None:
    arguments = ("--dtype", dtype, "--target", target, "--format", "json", "--verify")
    outcome = cli("classify", pictures, "--model", picture_model, *arguments)
    report = outcome.json()
    assert outcome.status == 0 and (report["dtype"], report["target"]) == (dtype, target)


def test_bad_files_among_good_ones(cli, pictures, picture_model) -> None:
    whole = (pictures / "0.png").read_bytes()
    (pictures / "cut.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "text.png").write_text("no picture", encoding="utf-8")
    Image.new("L", (1, 1)).save(pictures / "dot.png")
    (pictures / "gone.png").symlink_to(pictures / "nowhere.png")
    (pictures / "notes.txt").write_text("not looked at", encoding="utf-8")
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "json")
    report = outcome.json()
    assert outcome.status == 2
    assert len(report["predictions"]) == 3
    bad = ["cut.png", "dot.png", "gone.png", "text.png"]
    assert [Path(error["input"]).name for error in report["errors"]] == bad
    lines = [line for line in outcome.err.splitlines() if line.startswith("trninfer: ")]
    assert len(lines) == 4 and all(name in line for name, line in zip(bad, lines, strict=True))
    assert "Traceback" not in outcome.err


def test_run_without_usable_pictures(cli, tmp_path, picture_model) -> None:
    outcome = cli("classify", tmp_path / "missing.png", tmp_path, "--model", picture_model)
    assert outcome.status == 2 and outcome.out.strip() == ""
    assert [line.rpartition(": ")[2] for line in outcome.err.splitlines()] == [
        "no such file or folder", "no pictures in this folder"
    ]  # fmt: skip


def test_table_fits_80_columns(cli, pictures, picture_model) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, "--verify")
    assert outcome.status == 0 and outcome.err == ""
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out.replace("±", "").isascii() and "\x1b" not in outcome.out
    for row in [*ROWS, "predicted us", "bound by", "MFU", "share"]:
        assert row in outcome.out
    assert "not shown: " in outcome.out and "run_network" not in outcome.out
    assert "verify passed" in outcome.out


def test_machine_formats_have_standard_output_for_themselves(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "csv")
    outcome = cli(*arguments)
    assert list(csv.DictReader(io.StringIO(outcome.out)))[2]["input"] == str(pictures / "2.png")
    assert outcome.out.splitlines()[0] == "input,label,class_index,probability,error"
    assert "head" in outcome.err
    assert cli(*arguments, "--quiet").err == ""


def test_csv_names_what_was_bad(cli, pictures, picture_model) -> None:
    (pictures / "text.png").write_text("no picture", encoding="utf-8")
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "csv")
    last = list(csv.DictReader(io.StringIO(outcome.out)))[-1]
    assert outcome.status == 2 and last["label"] == "" and "not a picture" in last["error"]


def test_ndjson_is_an_object_a_line(cli, pictures, picture_model) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "ndjson", "--quiet")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [line["type"] for line in lines] == ["prediction"] * 3 + ["layer"] * len(ROWS) + ["summary"]
    assert lines[-1]["model"] == "tiny-cnn" and "predictions" not in lines[-1]


def test_quiet_leaves_the_answers(cli, pictures, picture_model) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, "--quiet")
    assert "0.png" in outcome.out and "matmul" not in outcome.out and outcome.err == ""


def test_output_file(cli, pictures, picture_model, tmp_path) -> None:
    target = tmp_path / "answers.json"
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "json", "--output", target, "--quiet")
    assert outcome.status == 0 and outcome.out == ""
    assert len(json.loads(target.read_text())["predictions"]) == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("option", ["--output", "--trace", "--report"])
def test_input_file_is_not_overwritten(cli, pictures, picture_model, tmp_path, option) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(str(pictures / "0.png"))
    for taken in (pictures / "1.png", picture_model, listed):
        before = taken.read_bytes()
        words = ("--from-list", listed, "--model", picture_model, "--format", "table")
        outcome = cli("classify", pictures, *words, option, taken)
        assert outcome.status == 2 and f"{option} {taken}: this file is read as input" in outcome.err
        assert taken.read_bytes() == before


def test_names_that_are_hard_to_print(cli, pictures, picture_model) -> None:
    stray = os.fsdecode(b"\xff.png")
    try:
        shutil.copy(pictures / "0.png", pictures / stray)
    except OSError:
        stray = "\u200b.png"
        shutil.copy(pictures / "0.png", pictures / stray)
    shutil.copy(pictures / "0.png", pictures / "[bold]a\n\x1b[31mb.png")
    for form in ("table", "json", "ndjson"):
        outcome = cli("classify", pictures, "--model", picture_model, "--format", form)
        assert outcome.status == 0 and "\x1b" not in outcome.out + outcome.err
    assert len(cli("classify", pictures, "--model", picture_model, "--format", "json").json()["predictions"]) == 5
    assert "[bold]a" in cli("classify", pictures, "--model", picture_model).out
    assert cli("classify", pictures, "--model", picture_model, "--format", "csv").status == 0


def test_standard_input(process, pictures, picture_model) -> None:
    running = process("classify", "-", "--model", picture_model, "--format", "json", "--quiet")
    out, err = running.communicate((pictures / "1.png").read_bytes())
    assert running.returncode == 0 and err == b""
    assert json.loads(out)["predictions"][0]["input"] == "-"


def test_verify_fails_with_status_1(cli, pictures, picture_model, monkeypatch) -> None:
    monkeypatch.setattr(verify, "network_tolerance", lambda dtype, measured: 1e-9)
    outcome = cli("classify", pictures, "--model", picture_model, "--dtype", "bfloat16", "--verify")
    assert outcome.status == 1 and "verify FAILED" in outcome.out


def test_models_that_cannot_be_used(cli, pictures, feature_model, tmp_path) -> None:
    assert cli("classify", pictures, "--model", feature_model).err.endswith("use trninfer ffnn\n")
    corrupt = tmp_path / "corrupt.safetensors"
    corrupt.write_bytes(b"\xff" * 100)
    for model in ("no-such-model", corrupt):
        outcome = cli("classify", pictures, "--model", model)
        assert outcome.status == 2 and outcome.out == "" and len(outcome.err.splitlines()) == 1


def test_a_list_that_names_nothing(cli, tmp_path) -> None:
    (tmp_path / "list").write_text("\n\n")
    outcome = cli("classify", "--from-list", tmp_path / "list")
    assert outcome.status == 2 and outcome.err.endswith("list: the list contains no names of pictures\n")


@pytest.mark.parametrize("content", [b"a.png\0b.png\0", "a.png\n".encode("utf-16"), b"\x89PNG\r\n\0\0\n"])
def test_a_list_that_is_no_text(cli, tmp_path, content) -> None:
    (tmp_path / "list").write_bytes(content)
    outcome = cli("classify", "--from-list", tmp_path / "list")
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.endswith("list: contains NUL bytes; expected a text file with one name per line\n")


def test_samples_are_read_right(cli, request) -> None:
    """The bundled network classifies the bundled samples, whose file names begin with the correct label."""
    folder = request.config.rootpath / "samples"
    load_model("digits-cnn")
    report = cli("classify", folder, "--format", "json", "--verify").json()
    assert len(report["predictions"]) >= 6 and report["verify"]["passed"]
    for answer in report["predictions"]:
        assert answer["label"] == Path(answer["input"]).name[0], answer


def test_arrays_with_their_channels_last(cli, picture_model, tmp_path) -> None:
    numbers = np.random.default_rng(0).random((2, 16, 16, 1), np.float32)
    np.save(tmp_path / "last.npy", numbers)
    np.save(tmp_path / "first.npy", numbers.transpose(0, 3, 1, 2))
    arguments = ("--model", picture_model, "--format", "json")
    first = cli("classify", tmp_path / "first.npy", *arguments).json()["predictions"]
    last = cli("classify", tmp_path / "last.npy", "--layout", "HWC", *arguments).json()["predictions"]
    assert [answer["top"] for answer in first] == [answer["top"] for answer in last]
    assert "the network expects [1, 16, 16]" in cli("classify", tmp_path / "last.npy", *arguments).err


def test_labels_score_the_pictures(cli, tmp_path, picture_model) -> None:
    """Labels by folder: unlabelled pictures are classified but not scored, and an accuracy below the minimum sets exit
    status 1."""
    for number, folder in enumerate(("3", "3", "5")):
        (tmp_path / "val" / folder).mkdir(parents=True, exist_ok=True)
        draw_picture(tmp_path / "val" / folder / f"{number}.png", number)
    draw_picture(tmp_path / "val" / "loose.png", 9)
    options = ("classify", tmp_path / "val", "--recursive", "--model", picture_model, "--labels", tmp_path / "val")
    report = cli(*options, "--format", "json").json()
    right = {"0": "3", "1": "3", "2": "5"}
    answers = [(right.get(Path(each["input"]).stem), each["label"]) for each in report["predictions"]]
    score = report["score"]
    assert (score["total"], score["unlabelled"]) == (3, 1)
    assert score["correct"] == sum(truth == label for truth, label in answers)
    assert sum(each["count"] for each in score["confusion"]) == sum(each["support"] for each in score["classes"]) == 3
    least = score["accuracy"] + 0.01
    failed = cli(*options, "--fail-under", f"{least:.2f}")
    assert failed.status == (1 if least <= 1 else 2) and "score:" in failed.out
    assert cli(*options, "--fail-under", "0").status == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fail-under", "0.5"), "--fail-under checks the accuracy, so it requires --labels"),
        (("--labels", "no.csv"), "no.csv: no such file"),
        (("--labels", "{label}.gif"), "no label for any of the pictures"),
        (("--labels", "{label}.png", "--fail-under", "97"), "'97' is not a fraction from 0 to 1, such as 0.97"),
    ],
)
def test_labels_that_cannot_be_used(cli, pictures, picture_model, options, message) -> None:
    outcome = cli("classify", pictures, "--model", picture_model, *options)
    assert outcome.status == 2 and message in outcome.err.replace("\n  ", " ")


def test_a_few_unusable_pictures_may_be_allowed(cli, pictures, picture_model) -> None:
    (pictures / "bad.png").write_bytes(b"no picture")
    statuses = [cli("classify", pictures, "--model", picture_model, "--max-errors", n).status for n in (0, 1, 2)]
    assert statuses == [2, 0, 0]
    assert "bad.png" in cli("classify", pictures, "--model", picture_model, "--max-errors", 5, "-q").err
