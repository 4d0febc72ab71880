"""Runs that are interrupted, resumed, written to one file by two processes, or not read."""

import csv
import io
import json
import os
import resource
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.journal.answers import AnswerOutput, open_answers
from trninfer.app.options import AnswerOptions
from trninfer.app.reports.report import Report
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.search import InputProblem

LABELS = ("a", "b")
IDENTITY = {"command": "classify", "model": "m", "top_k": 2}


def answer(name: str | int) -> Prediction:
    return Prediction(name, "b", 1, 0.75, (LabelProbability("b", 1, 0.75), LabelProbability("a", 0, 0.25)))


def report() -> Report:
    return Report("classify", "m", "sim", "trn2", "float32", "predicted", errors=[InputProblem("bad.png", "cut")])


def write(*answers: Prediction, shown: int | None = None, **options: Any) -> AnswerOutput:
    """Write the report of some answers, each in a separate batch, with the given options."""
    given = AnswerOptions(quiet=True, **options)
    with open_answers(given, IDENTITY, LABELS, None) as output:
        for each in answers:
            output.add([each])
        output.finish(report(), True, shown)
    return output


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_stream_is_written_as_it_comes(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    options = AnswerOptions(form=form, quiet=True)
    with open_answers(options, IDENTITY, LABELS, None) as output:
        assert output.add([answer("x")]) and not output.on_screen
        first = capsys.readouterr().out
        assert '"x"' in first or first.splitlines() == ["input,label,class_index,probability,error", "x,b,1,0.75,"]
        assert output.add([answer("y")]) and len(capsys.readouterr().out.splitlines()) == 1
        output.finish(report(), True, None)
        assert list(output) == [] and output.answered() == output.reported() == set()
    told = capsys.readouterr()
    assert "bad.png" in told.out and told.err == "trninfer: bad.png: cut\n"


def test_all_else_waits_until_it_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_answers(AnswerOptions(form="json", quiet=True), IDENTITY, LABELS, None) as output:
        output.add([answer("x"), answer(3)])
        assert capsys.readouterr().out == "" and [each.input for each in output] == ["x", 3]
        output.finish(report(), True, None)
    assert [each["input"] for each in json.loads(capsys.readouterr().out)["predictions"]] == ["x", 3]
    for form in ("table", "json", "csv", "ndjson"):
        write(answer("x"), form=form, output=tmp_path / form)
        assert "x" in (tmp_path / form).read_text() and capsys.readouterr().out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "json", "ndjson", "table"]


def test_a_table_has_a_row_for_each_label_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    write(answer("x"), answer("y"), shown=2)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:6]]
    assert rows == [["x", "b", "0.7500"], ["a", "0.2500"], ["y", "b", "0.7500"], ["a", "0.2500"]]
    write(answer("x"))
    assert capsys.readouterr().out.count("0.2500") == 0


def test_answers_are_kept_if_the_run_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = AnswerOptions(form="csv", output=tmp_path / "a.csv")
    with pytest.raises(ZeroDivisionError), open_answers(options, IDENTITY, LABELS, None):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().err == ""  # nothing was processed
    with pytest.raises(ZeroDivisionError), open_answers(options, IDENTITY, LABELS, None) as output:
        output.add([answer("x")])
        raise ZeroDivisionError
    told = capsys.readouterr().err
    assert told.startswith(
        f"trninfer: 1 answer saved in {tmp_path}/a.csv.partial; to continue, run the same command with"
    )
    with open_answers(replace(options, resume=True), IDENTITY, LABELS, None) as output:
        assert (output.earlier, output.answered(), output.reported()) == (1, {"x"}, set())
        output.add([answer("y")])
        output.finish(report(), True, None)
    assert "continuing from 1 answer in" in capsys.readouterr().err
    assert [row["input"] for row in rows_of((tmp_path / "a.csv").read_text())] == ["x", "y", "bad.png"]


def test_answers_of_a_report_are_copied_and_it_is_kept_until_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(answer("=x"), form="csv", output=path, csv_safe=True)
    before = path.read_bytes()
    options = AnswerOptions(form="csv", output=path, csv_safe=True, quiet=True, resume=True)
    with pytest.raises(ZeroDivisionError), open_answers(options, IDENTITY, LABELS, None) as output:
        assert (output.answered(), output.reported()) == ({"=x"}, {"=x"})
        raise ZeroDivisionError
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]  # the old report stays


def test_an_interrupted_run_takes_precedence_over_an_earlier_report(tmp_path: Path) -> None:
    options = AnswerOptions(form="csv", output=tmp_path / "a.csv", quiet=True)
    write(answer("x"), form="csv", output=tmp_path / "a.csv")
    with pytest.raises(ZeroDivisionError), open_answers(options, IDENTITY, LABELS, None) as output:
        output.add([answer("y")])
        raise ZeroDivisionError
    with open_answers(replace(options, resume=True), IDENTITY, LABELS, None) as output:
        assert output.answered() == {"y"}
        output.finish(report(), True, None)


def test_writing_stops_when_the_reader_has_closed_the_pipe(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with open_answers(AnswerOptions(form="csv", output=fifo, quiet=True), IDENTITY, LABELS, None) as output:
        assert output.add([answer("x")]) and os.read(reader, 1000).endswith(b"\nx,b,1,0.75,\n")
        os.close(reader)
        assert not output.add([answer("y")])
        another = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        assert not output.add([answer("z")])
        output.finish(report(), True, None)
        with pytest.raises(BlockingIOError):  # nothing is written
            os.read(another, 1000)
        os.close(another)


@pytest.mark.parametrize("output", [None, Path("/dev/null")])
def test_only_a_file_can_be_gone_on_with(output: Path | None) -> None:
    options = AnswerOptions(resume=True, output=output)
    with pytest.raises(UsageError, match="it requires --output FILE"), open_answers(options, IDENTITY, LABELS, None):
        pass


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def many(pictures: Path) -> Path:
    """Return a folder with forty pictures."""
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
    assert wrong.status == 2 and wrong.err == "trninfer: --top-k 11: this model has only 10 labels\n"
    assert cli(*arguments, "--top-k", 0).status == 2


def test_resume_answers_what_is_missing(cli, many, picture_model, tmp_path) -> None:
    target = tmp_path / "a.csv"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv")
    whole = cli(*arguments, "--quiet").out
    options = (*arguments, "--output", target, "--resume")
    for done in ("".join(whole.splitlines(True)[:11]), whole[:-9]):
        target.write_text(done)  # the state that a full disk may leave
        outcome = cli(*options)
        assert outcome.status == 0 and f"continuing from {done.count(chr(10)) - 1} answers in" in outcome.err
        assert [(r["input"], r["label"]) for r in rows_of(target.read_text())] == [
            (r["input"], r["label"]) for r in rows_of(whole)
        ]
        assert target.read_text().startswith(done[: done.rindex("\n")])
    before = target.read_text()
    assert cli(*options).status == 0 and target.read_text() == before  # the report is complete
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
        (("--verify",), "cannot be used together"),
    ):
        outcome = cli(*options, *change)
        assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


def test_a_finished_run_that_is_resumed_has_the_times_of_layers(cli, pictures, picture_model, tmp_path) -> None:
    """The state after the process was killed between the last answer and the report."""
    target = tmp_path / "a.ndjson"
    options = ("classify", pictures, "--model", picture_model, "--format", "ndjson", "--output", target)
    assert cli(*options).status == 0
    first = [json.loads(line) for line in target.read_text().splitlines()]
    assert cli(*options, "--resume").status == 0
    again = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["name"] for line in again if line["type"] == "layer"] == [
        line["name"] for line in first if line["type"] == "layer"
    ]
    assert again[-1]["type"] == "summary" and again[-1]["total_us"] > 0


@pytest.mark.slow
def test_interruption_and_resume(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.json", tmp_path / "a.json.partial"
    target.write_text("before")
    arguments = ("classify", many, "--model", picture_model, "--format", "json", "--output", target, "--batch-size", 1)
    running = process(*arguments, preexec_fn=give_way)
    wait_for_answers(running, partial, 3)
    running.send_signal(signal.SIGSTOP)
    second = process(*arguments)
    assert second.communicate()[1] == f"trninfer: {target}: another run is writing to it\n".encode()
    assert second.returncode == 2
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGCONT)
    _, err = running.communicate(timeout=120)
    kept = partial.read_bytes().count(b"\n") - 1
    # An answer that was being written at the interruption is discarded.
    assert running.returncode == 130, (running.returncode, err[-3000:])
    assert running.returncode == 130 and kept >= 2 and target.read_text() == "before"
    assert err.decode() == (
        f"trninfer: {kept} answers saved in {partial}; to continue, run the same command with --resume\n"
        "trninfer: interrupted\n"
    )
    other = process(*arguments, "--resume", "--dtype", "float16")
    assert b"were computed with dtype float32, not float16" in other.communicate()[1] and other.returncode == 2
    again = process(*arguments, "--resume")
    _, err = again.communicate()
    assert again.returncode == 0 and f"continuing from {kept} answers in {partial}" in err.decode()
    report = json.loads(target.read_text())
    assert [Path(a["input"]).name for a in report["predictions"]] == sorted(os.listdir(many))
    assert report["layers"][0]["input_shape"][0] == 40 - kept
    assert not partial.exists()


@pytest.mark.slow
def test_killed_runs_are_gone_on_with_too(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--batch-size", 1)
    running = process(*arguments, preexec_fn=give_way)
    wait_for_answers(running, partial, 1)
    running.kill()
    running.communicate()
    again = process(*arguments, "--resume", "--quiet")
    assert again.communicate() == (b"", b"") and again.returncode == 0
    assert [Path(row["input"]).name for row in rows_of(target.read_text())] == sorted(os.listdir(many))


@pytest.mark.slow
def test_a_full_disk_is_reported_and_gone_on_from(process, many, picture_model, tmp_path) -> None:
    target, partial = tmp_path / "a.csv", tmp_path / "a.csv.partial"
    arguments = ("classify", many, "--model", picture_model, "--format", "csv", "--output", target, "--quiet")
    small = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))}
    whole = {"PYTHONDONTWRITEBYTECODE": "1"}  # otherwise the limit also truncates bytecode files
    running = process(*arguments, "--batch-size", 3, env=whole, **small)
    _, err = running.communicate()
    assert running.returncode == 2 and b"cannot be written: File too large" in err and b"answers saved in" in err
    kept = partial.read_bytes()
    assert kept.endswith(b"\n") and kept.count(b"\n") > 3 and not target.exists()
    again = process(*arguments, "--resume")
    assert again.communicate()[1] == b"" and again.returncode == 0
    assert len(rows_of(target.read_text())) == 40 and not partial.exists()


def test_a_closed_pipe_ends_the_run(process, many, picture_model) -> None:
    running = process("classify", many, "--model", picture_model, "--format", "csv", "--batch-size", 1)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == b"input,label,class_index,probability,error\n"
    assert running.stdout.readline().startswith(str(many).encode())  # before the remaining pictures are processed
    running.stdout.close()
    err = running.stderr.read().decode()
    assert running.wait() == 0 and "Traceback" not in err and "40 pictures" not in err


def test_resume_needs_a_file(cli, pictures, picture_model) -> None:
    for output in ((), ("--output", "/dev/null")):
        outcome = cli("classify", pictures, "--model", picture_model, "--resume", *output)
        assert outcome.status == 2 and "it requires --output FILE" in outcome.err


def give_way() -> None:
    """Let a run begin that the test stops before its end; on a busy machine, the test gets the processor first."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.nice(5)


def wait_for_answers(running, partial: Path, count: int) -> None:
    """Wait until a run has written that many answers."""
    end = time.monotonic() + 300
    while not partial.exists() or partial.read_bytes().count(b"\n") <= count:
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.005)


def test_layers_after_a_resume_report_what_they_leave_out(cli, pictures, picture_model, tmp_path) -> None:
    command = ["classify", "--model", picture_model, "--output", tmp_path / "a.ndjson", "--format", "ndjson"]
    assert cli(*command, pictures / "0.png").status == 0
    outcome = cli(*command, "--resume", pictures)
    assert "2 pictures in batches of at most 16; the times do not include the 1 answer of an earlier run" in " ".join(
        outcome.err.split()
    )
    lines = [json.loads(line) for line in (tmp_path / "a.ndjson").read_text().splitlines()]
    assert lines[-1]["type"] == "summary" and lines[-1]["answered_earlier"] == 1
