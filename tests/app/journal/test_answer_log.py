"""The log of an interrupted run: whole answers are taken over, and which of them a report told is known."""

from pathlib import Path

import pytest
from trninfer.app.errors import UsageError
from trninfer.app.journal.answer_log import AnswerLog
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


def test_answers_of_an_interrupted_run_are_taken_over(tmp_path: Path) -> None:
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


def test_those_that_a_report_told_are_known_by_their_names_there(tmp_path: Path) -> None:
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
        ({**ASKED, "dtype": "float16"}, LABELS, "were given with dtype float32, not float16"),
        (ASKED, ("a",), "line 2 is no answer of this model"),
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
