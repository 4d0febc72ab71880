"""Runs that are cut off, gone on with, written to one file by two, or read by nobody."""

import csv
import io
import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def many(pictures: Path) -> Path:
    """A folder of forty pictures."""
    for number in range(3, 40):
        shutil.copy(pictures / f"{number % 3}.png", pictures / f"{number:02}.png")
    return pictures


def test_top_k(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--quiet")
    for form in ("json", "ndjson"):
        out = cli(*arguments, "--top-k", 3, "--format", form).out
        answers = json.loads(out)["predictions"] if form == "json" else [json.loads(x) for x in out.splitlines()[:3]]
        assert [len(a["top"]) for a in answers] == [3, 3, 3]
        assert all(a["top"][0]["label"] == a["label"] for a in answers)
    table = cli(*arguments, "--top-k", 2).out.splitlines()
    assert len(table) == len(cli(*arguments).out.splitlines()) + 3
    wrong = cli(*arguments, "--top-k", 11)
    assert wrong.status == 2 and wrong.err == "trninfer: --top-k 11: this model has 10 labels\n"
    assert cli(*arguments, "--top-k", 0).status == 2


def test_resume_answers_what_is_missing(cli, many, picture_model, tmp_path) -> None:
    target = tmp_path / "a.csv"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv")
    whole = cli(*arguments, "--quiet").out
    options = (*arguments, "--output", target, "--resume")
    for done in ("".join(whole.splitlines(True)[:11]), whole[:-9]):
        target.write_text(done)  # as a full disk may leave it
        outcome = cli(*options)
        assert outcome.status == 0 and f"going on from {done.count(chr(10)) - 1} answers in" in outcome.err
        assert [(r["input"], r["label"]) for r in rows_of(target.read_text())] == [
            (r["input"], r["label"]) for r in rows_of(whole)
        ]
        assert target.read_text().startswith(done[: done.rindex("\n")])
    before = target.read_text()
    assert cli(*options).status == 0 and target.read_text() == before  # nothing is missing
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["a.csv"]


def test_resume_tries_errors_again_and_takes_new_pictures(cli, pictures, picture_model, tmp_path) -> None:
    target = tmp_path / "a.ndjson"
    good = (pictures / "1.png").read_bytes()
    (pictures / "1.png").write_bytes(b"not yet")
    options = ("classify", pictures, "--model", picture_model, "--format", "ndjson", "--output", target, "--resume")
    assert cli(*options).status == 2
    (pictures / "1.png").write_bytes(good)
    shutil.copy(pictures / "2.png", pictures / "3.png")
    assert cli(*options).status == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    inputs = [Path(line["input"]).name for line in lines if line["type"] == "prediction"]
    assert inputs == ["0.png", "2.png", "1.png", "3.png"] and not [x for x in lines if x["type"] == "error"]
    for change, message in (
        (("--dtype", "bfloat16"), "dtype float32, not bfloat16"),
        (("--target", "trn1"), "target trn2, not trn1"),
        (("--top-k", "2"), "top-k 5"),
        (("--verify",), "exclude each other"),
    ):
        outcome = cli(*options, *change)
        assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


def test_interruption_and_resume(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.json", tmp_path / "a.json.partial"
    target.write_text("before")
    arguments = ("classify", many, "--model", picture_model, "--format", "json", "--output", target, "--batch-size", 1)
    running = process(*arguments)
    wait_for_answers(running, partial, 3)
    running.send_signal(signal.SIGSTOP)
    second = process(*arguments)
    assert second.communicate()[1] == f"trninfer: {target}: another run is writing to it\n".encode()
    assert second.returncode == 2
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGCONT)
    _, err = running.communicate(timeout=20)
    kept = partial.read_bytes().count(b"\n") - 1
    # One that was being written when it was interrupted is taken back.
    assert running.returncode == 130 and kept >= 2 and target.read_text() == "before"
    assert err.decode() == (
        f"trninfer: {kept} answers kept in {partial}; the same command with --resume goes on from there\n"
        "trninfer: interrupted\n"
    )
    other = process(*arguments, "--resume", "--dtype", "float16")
    assert b"were made with dtype float32, not float16" in other.communicate()[1] and other.returncode == 2
    again = process(*arguments, "--resume")
    _, err = again.communicate()
    assert again.returncode == 0 and f"going on from {kept} answers in {partial}" in err.decode()
    report = json.loads(target.read_text())
    assert [Path(a["input"]).name for a in report["predictions"]] == sorted(os.listdir(many))
    assert report["layers"][0]["input_shape"][0] == 40 - kept
    assert not partial.exists()


def test_killed_runs_are_gone_on_with_too(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--batch-size", 1)
    running = process(*arguments)
    wait_for_answers(running, partial, 1)
    running.kill()
    running.communicate()
    again = process(*arguments, "--resume", "--quiet")
    assert again.communicate() == (b"", b"") and again.returncode == 0
    assert [Path(row["input"]).name for row in rows_of(target.read_text())] == sorted(os.listdir(many))


def test_a_full_disk_is_told_and_gone_on_from(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--quiet")
    small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))}
    running = process(*arguments, "--batch-size", 3, **small)
    _, err = running.communicate()
    assert running.returncode == 2 and b"cannot be written: File too large" in err and b"answers kept in" in err
    kept = partial.read_bytes()
    assert kept.endswith(b"\n") and kept.count(b"\n") > 3 and not target.exists()
    again = process(*arguments, "--resume")
    assert again.communicate()[1] == b"" and again.returncode == 0
    assert len(rows_of(target.read_text())) == 40 and not partial.exists()


def test_a_reader_that_goes_away_ends_the_run(process, many, picture_model) -> None:
    running = process("classify", many, "--model", picture_model, "--format", "csv", "--batch-size", 1)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == b"input,label,class_index,probability,error\n"
    assert running.stdout.readline().startswith(str(many).encode())  # before the others are answered
    running.stdout.close()
    err = running.stderr.read().decode()
    assert running.wait() == 0 and "Traceback" not in err and "40 pictures" not in err


def test_resume_needs_a_file(cli, pictures, picture_model) -> None:
    for output in ((), ("--output", "/dev/null")):
        outcome = cli("classify", pictures, "--model", picture_model, "--resume", *output)
        assert outcome.status == 2 and "it needs --output FILE" in outcome.err


def wait_for_answers(running, partial: Path, count: int) -> None:
    """Until a run has answered so many."""
    end = time.monotonic() + 30
    while not partial.exists() or partial.read_bytes().count(b"\n") <= count:
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.005)


def test_layers_after_a_resume_tell_what_they_leave_out(cli, pictures, picture_model, tmp_path) -> None:
    command = ["classify", "--model", picture_model, "--output", tmp_path / "a.ndjson", "--format", "ndjson"]
    assert cli(*command, pictures / "0.png").status == 0
    outcome = cli(*command, "--resume", pictures)
    assert "2 pictures in batches of at most 16; the 1 answer of an earlier run took no time here" in " ".join(
        outcome.err.split()
    )
    lines = [json.loads(line) for line in (tmp_path / "a.ndjson").read_text().splitlines()]
    assert lines[-1]["type"] == "summary" and lines[-1]["answered_earlier"] == 1
