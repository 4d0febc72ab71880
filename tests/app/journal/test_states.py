"""The recorded states of processed files, by which a later run detects changed files."""

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.app.errors import UsageError
from trninfer.app.journal.states import FileStates


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def replace_picture(path: Path, other: Path, keep_time: bool) -> None:
    """Replace a picture with another one, optionally of the same size and time, as when folders are copied."""
    status, content = path.stat(), other.read_bytes()
    path.write_bytes(content + bytes(max(0, status.st_size - len(content))))
    if keep_time:
        os.truncate(path, status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**12))


def leave_partial(cli, target: Path, *arguments: object) -> None:
    """Leave an interrupted run: the disk is full, so the report cannot be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trninfer.app.journal.answers.write_chunks", full_disk)
        assert cli(*arguments).status == 2
    assert Path(f"{target}.partial").exists() and not target.exists()


def full_disk(*_: object) -> None:
    raise UsageError("no space left")


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("check", ["name", "stat", "hash"])
@pytest.mark.parametrize("keep_time", [False, True])
def test_resume_answers_pictures_again_that_changed(
    cli, pictures, picture_model, tmp_path, check, finished, keep_time
) -> None:
    target = tmp_path / "a.csv"
    options = ("classify", pictures, "--model", picture_model, "--format", "csv", "--output", target)
    with (pictures / "1.png").open("ab") as file:
        file.write(bytes(4096))  # makes room for another picture in a file of the same size
    if finished:
        assert cli(*options, "--resume-check", check).status == 0
    else:
        leave_partial(cli, target, *options, "--resume-check", check)
    image = Image.open(pictures / "2.png").transpose(Image.Transpose.ROTATE_180)
    image.save(tmp_path / "other.png")
    replace_picture(pictures / "1.png", tmp_path / "other.png", keep_time)
    outcome = cli(*options, "--resume", "--resume-check", check)
    if finished and check == "hash":
        assert outcome.status == 2 and "has no hash" in outcome.err and len(outcome.err.splitlines()) == 1
        return
    assert outcome.status == 0
    names = [Path(row["input"]).name for row in rows_of(target.read_text())]
    seen = check == "hash" or (check == "stat" and not keep_time)
    assert names == (["0.png", "2.png", "1.png"] if seen else ["0.png", "1.png", "2.png"])
    assert ("1 input changed since an earlier run" in outcome.err) == seen
    if seen:
        now = rows_of(cli("classify", pictures / "1.png", "--model", picture_model, "--format", "csv", "--quiet").out)
        assert rows_of(target.read_text())[-1] == now[0]


def test_an_answer_that_does_not_count_is_never_counted_again(cli, pictures, picture_model, tmp_path) -> None:
    target = tmp_path / "a.csv"
    options = ("classify", pictures, "--model", picture_model, "--format", "csv", "--output", target, "--resume")
    for _ in range(3):
        leave_partial(cli, target, *options)
        replace_picture(pictures / "1.png", pictures / "0.png", keep_time=False)
    assert cli(*options).status == 0
    answers = {Path(row["input"]).name: float(row["probability"]) for row in rows_of(target.read_text())}
    assert len(rows_of(target.read_text())) == 3 and answers["0.png"] == pytest.approx(answers["1.png"], rel=1e-5)


def test_examples_of_an_array_are_known_by_their_file(cli, picture_model, tmp_path) -> None:
    path, target = tmp_path / "x.npy", tmp_path / "a.csv"
    np.save(path, np.zeros((3, 1, 16, 16), np.float32))
    options = ("classify", path, "--model", picture_model, "--format", "csv", "--output", target, "--resume")
    leave_partial(cli, target, *options)
    np.save(path, np.random.default_rng(0).standard_normal((3, 1, 16, 16)).astype(np.float32))
    os.utime(path, ns=(0, 10**18))
    assert "3 inputs changed" in cli(*options).err
    assert len({row["probability"] for row in rows_of(target.read_text())}) == 3


def test_hashes_need_a_file_and_an_earlier_run_that_made_them(cli, pictures, picture_model, tmp_path) -> None:
    options = ("classify", pictures, "--model", picture_model, "--format", "csv")
    assert "requires --output FILE" in cli(*options, "--resume-check", "hash").err
    leave_partial(cli, tmp_path / "a.csv", *options, "--output", tmp_path / "a.csv")
    outcome = cli(*options, "--output", tmp_path / "a.csv", "--resume", "--resume-check", "hash")
    assert outcome.status == 2 and "use --resume-check stat" in outcome.err
    assert Path(f"{tmp_path / 'a.csv'}.partial").exists()


def state_of(path: Path, check: str) -> dict | None:
    """Return the state of a file at the time when it is passed on."""
    states = FileStates([str(path)], check)  # type: ignore[arg-type]
    assert list(states.watch([str(path)])) == [str(path)]
    return states.take(str(path))


def test_a_state_is_recorded_when_the_file_is_yielded(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"before")
    states = FileStates([str(tmp_path / "a"), str(tmp_path / "b")], "stat")
    watched = states.watch([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "none")])
    next(watched)
    (tmp_path / "a").write_bytes(b"later on")
    (tmp_path / "b").write_bytes(b"later")
    assert len(list(watched)) == 2
    taken = states.take(str(tmp_path / "a"))
    assert taken is not None and taken["size"] == 6 and states.take(str(tmp_path / "a")) is None  # once
    assert (states.take(str(tmp_path / "b")) or {})["size"] == 5 and states.take(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("check", "same_size", "same_time", "is_current"),
    [
        ("name", False, False, True), ("stat", True, True, True), ("stat", False, True, False),
        ("stat", True, False, False), ("hash", True, True, False), ("hash", True, False, False),
    ],
)  # fmt: skip
def test_changes_of_a_file(tmp_path: Path, check, same_size, same_time, is_current) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"12345")
    os.utime(path, ns=(0, 1000))
    state = state_of(path, check)
    states = FileStates([str(path)], check)
    assert states.is_current(str(path), state, False)
    path.write_bytes(b"54321" if same_size else b"123456")
    os.utime(path, ns=(0, 1000 if same_time else 1001))
    assert states.is_current(str(path), state, False) == is_current
    assert FileStates([], check).is_current(str(path), state, False)  # not one of the recorded files


def test_a_touched_file_of_the_same_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)  # read in several pieces
    state = state_of(tmp_path / "a", "hash")
    os.utime(tmp_path / "a", ns=(0, 0))
    assert FileStates([str(tmp_path / "a")], "hash").is_current(str(tmp_path / "a"), state, False)
    (tmp_path / "a").unlink()
    assert not FileStates([str(tmp_path / "a")], "hash").is_current(str(tmp_path / "a"), state, False)
    assert not FileStates([str(tmp_path / "a")], "stat").is_current(str(tmp_path / "a"), None, False)


def test_an_answer_of_a_report_is_older_than_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.npy").touch()
    path = str(tmp_path / "a.npy")
    states = FileStates([path], "stat")
    for changed, current in ((1000, True), (1001, False)):
        os.utime(path, ns=(0, changed))
        assert states.is_current(path, {"before": 1000}, True) == current
        assert states.is_current(f"{path}[12]", {"before": 1000}, True) == current  # one example of an array
    with pytest.raises(UsageError, match=r"^--resume-check hash: the answer to .*a\.npy has no hash"):
        FileStates([path], "hash").is_current(path, {"before": 1000}, True)


def test_a_name_in_a_report_may_refer_to_several_files(tmp_path: Path) -> None:
    as_byte, as_text = os.fsdecode(os.fsencode(tmp_path) + b"/\xff"), str(tmp_path / "\\xff")
    for path, changed in ((as_byte, 1000), (as_text, 2000)):
        Path(path).touch()
        os.utime(path, ns=(0, changed))
    states = FileStates([as_byte, as_text], "stat")
    assert not states.is_current(as_text, {"before": 1500}, True)  # one of the two is more recent
    assert states.is_current(as_text, {"size": 0, "changed_ns": 2000}, False)
    assert states.is_current(as_byte, {"size": 0, "changed_ns": 1000}, False)
