"""The log of an interrupted run: complete answers are reused, and the log records which of them a report contained."""

import json
import os
from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.journal.answer_log import AnswerLog, open_log
from trninfer.inference.predictions import LabelProbability, Prediction

ASKED = {"command": "classify", "model": "n", "dtype": "float32"}
LABELS = ("a", "b")


def answer(name: str | int, label: str = "a") -> Prediction:
    return Prediction(name, label, LABELS.index(label), 0.75, (LabelProbability(label, LABELS.index(label), 0.75),))


def log_at(path: Path) -> AnswerLog:
    return AnswerLog(path.open("r+b" if path.exists() else "w+b", buffering=0), path)


def resumed(path: Path) -> AnswerLog:
    log = log_at(path)
    log.go_on(ASKED, LABELS)
    return log


def test_answers_of_an_interrupted_run_are_reused(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    log = log_at(path)
    assert not log.holds_answers()
    log.begin(ASKED)
    assert not log.holds_answers()
    log.append([answer("x.png"), answer("y.png", "b")])
    log.close(keep=True)
    again = resumed(path)
    assert (again.count, again.earlier, again.copied) == (2, 2, 0)
    assert again.answered == {"x.png", "y.png"} and again.reported == set()
    again.append([answer("z.png")])
    assert [each.input for each in again] == ["x.png", "y.png", "z.png"] and (again.count, again.earlier) == (3, 2)
    again.close()
    assert not path.exists()


def test_answers_of_a_report_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    log = log_at(path)
    log.begin(ASKED)
    log.take_over([answer("told.png"), answer("told.png")], written_ns=1)
    assert (log.count, log.earlier, log.copied) == (1, 1, 1) and log.reported == {"told.png"}
    log.append([answer("own.png")])
    log.close(keep=True)
    again = resumed(path)
    assert again.answered == {"told.png", "own.png"} and again.reported == {"told.png"}


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    log = log_at(path)
    log.begin(ASKED)
    log.append([answer(1), answer(2)])
    log.close(keep=True)
    path.write_bytes(path.read_bytes()[:-9])
    again = resumed(path)
    assert again.answered == {1}
    again.append([answer(3)])
    again.close(keep=True)
    assert [each.input for each in resumed(path)] == [1, 3]


@pytest.mark.parametrize(
    ("asked", "labels", "reason"),
    [
        ({**ASKED, "dtype": "float16"}, LABELS, "were computed with dtype float32, not float16"),
        (ASKED, ("a",), "line 2 is not an answer of this model"),
    ],
)
def test_answers_to_something_else_are_refused(tmp_path: Path, asked: dict, labels: tuple, reason: str) -> None:
    path = tmp_path / "answers"
    log = log_at(path)
    log.begin(ASKED)
    log.append([answer("x.png", "b")])
    log.close(keep=True)
    with pytest.raises(UsageError, match=reason):
        log_at(path).go_on(asked, labels)


def test_a_log_returns_the_stored_answers(tmp_path) -> None:
    given = [answer("one"), answer("two\udcff\n"), answer(3)]
    log = open_log(tmp_path / "x.csv", ASKED, LABELS, False)
    log.append(given[:2])
    assert list(log) == given[:2]
    log.append(given[2:])
    assert list(log) == given and log.count == 3
    log.close(keep=True)
    again = open_log(tmp_path / "x.csv", ASKED, LABELS, True)
    assert list(again) == given and again.answered == {"one", "two\udcff\n", 3} and again.earlier == 3
    again.append([answer("four")])
    assert list(again) == [*given, answer("four")]
    again.close()
    assert list(tmp_path.iterdir()) == []


def test_a_log_restores_the_shape_of_values(tmp_path) -> None:
    given = [Prediction("one", None, None, None, (), (1.0, 2.0, 3.0, 4.0), shape=(2, 2))]
    log = open_log(tmp_path / "x.csv", ASKED, (), False)
    log.append(given)
    assert list(log) == given
    log.close(keep=False)


def test_a_line_that_was_cut_off_is_given_again(tmp_path) -> None:
    log = open_log(tmp_path / "x", ASKED, LABELS, False)
    log.append([answer("one"), answer("two")])
    log.close(keep=True)
    whole = (tmp_path / "x.partial").read_bytes()
    for cut in range(40, len(whole)):
        (tmp_path / "x.partial").write_bytes(whole[:cut])
        log = open_log(tmp_path / "x", ASKED, LABELS, True)
        assert log.answered <= {"one", "two"} and log.count == max(0, whole[:cut].count(b"\n") - 1)
        log.append([answer("three")])
        assert [a.input for a in log][-1] == "three" and len(list(log)) == log.count
        log.close(keep=True)


def test_answers_of_an_interrupted_run_are_never_replaced_unasked(tmp_path) -> None:
    log = open_log(tmp_path / "x", ASKED, LABELS, False)
    log.close(keep=True)
    log = open_log(tmp_path / "x", ASKED, LABELS, False)  # there were none
    log.append([answer("one")])
    log.close(keep=True)
    before = (tmp_path / "x.partial").read_bytes()
    with pytest.raises(UsageError, match="add --resume to continue from them, or remove the file to start again"):
        open_log(tmp_path / "x", ASKED, LABELS, False)
    assert (tmp_path / "x.partial").read_bytes() == before


@pytest.mark.parametrize("change", [{"class_index": 99}, {"label": "x"}, {"probability": float("nan")}, {"top": 3}])
def test_answers_to_go_on_from_are_checked(tmp_path, change) -> None:
    log = open_log(tmp_path / "x", ASKED, LABELS, False)
    log.append([answer("one"), answer("two")])
    log.close(keep=True)
    first, second, third = (tmp_path / "x.partial").read_text().splitlines()
    changed = json.dumps({**json.loads(second), **change})
    (tmp_path / "x.partial").write_text(f"{first}\n{changed}\n{third}\n")
    with pytest.raises(UsageError, match="line 2 is not an answer of this model"):
        open_log(tmp_path / "x", ASKED, LABELS, True)


def test_other_options_are_reported(tmp_path) -> None:
    open_log(tmp_path / "x", {**ASKED, "dtype": "float32"}, LABELS, False).close(keep=True)
    with pytest.raises(UsageError, match=r"x\.partial were computed with dtype float32, not bfloat16"):
        open_log(tmp_path / "x", {**ASKED, "dtype": "bfloat16"}, LABELS, True)
    assert (tmp_path / "x.partial").exists()


def test_two_runs_do_not_write_one_file(tmp_path) -> None:
    log = open_log(tmp_path / "x", ASKED, LABELS, False)
    for resume in (False, True):
        with pytest.raises(UsageError, match="another run is writing to it"):
            open_log(tmp_path / "x", ASKED, LABELS, resume)
    log.append([answer("one")])
    assert list(log) == [answer("one")]
    log.close()
    open_log(tmp_path / "x", ASKED, LABELS, False).close()


@pytest.mark.parametrize("content", [b"mine\n", b"", None])
def test_file_in_the_place_of_the_log_is_not_changed(tmp_path, content) -> None:
    partial = tmp_path / "x.partial"
    if content is None:
        os.mkfifo(partial)
    elif content:
        partial.write_bytes(content)
    else:
        partial.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"x\.partial"):
        open_log(tmp_path / "x", ASKED, LABELS, False)
    assert not (tmp_path / "elsewhere").exists() and (content != b"mine\n" or partial.read_bytes() == content)


def test_a_full_disk_keeps_the_answers_before(tmp_path, monkeypatch) -> None:
    log = open_log(tmp_path / "x", ASKED, LABELS, False)
    log.append([answer("one")])
    before = (tmp_path / "x.partial").read_bytes()
    file = log._file

    class Full:
        """A file on a disk that has room for ten more bytes."""

        def __getattr__(self, name: str) -> object:
            return getattr(file, name)

        def write(self, content: bytes) -> int:
            if len(content) < 20:
                raise OSError(28, "No space left on device")
            return file.write(content[:10])

    monkeypatch.setattr(log, "_file", Full())
    with pytest.raises(OSError, match="No space left"):
        log.append([answer("two")])
    assert (tmp_path / "x.partial").read_bytes() == before and list(log) == [answer("one")]
    log.close()
