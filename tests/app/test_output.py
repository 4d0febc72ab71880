"""Reports are written completely or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest
from trninfer.app import output
from trninfer.app.errors import UsageError
from trninfer.app.output import check_kept, check_output, write_output
from trninfer.app.text import printable


def test_a_file_that_is_read_is_not_replaced(tmp_path: Path) -> None:
    picture, other, link = tmp_path / "a.png", tmp_path / "b.png", tmp_path / "link"
    picture.write_text("picture")
    os.link(picture, link)
    for path in (picture, link):
        with pytest.raises(UsageError, match=f"--trace {path}: this file is read as input; use another name"):
            check_kept(["missing.png", "-", "\0", other, picture], ("--output", None), ("--trace", path))
    check_kept([other, picture], ("--output", other), ("--trace", tmp_path / "new.json"), ("--report", tmp_path))


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    target.write_text("old")
    target.chmod(0o640)
    write_output("new", target)
    assert target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_respects_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output("new", tmp_path / "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_output("text", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "text"


def test_devices_are_written_to_not_replaced(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    check_output(fifo)
    write_output("text", fifo)
    assert os.read(reader, 10) == b"text" and stat.S_ISFIFO(fifo.stat().st_mode)
    os.close(reader)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.json"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        write_output("new", target)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"] and target.read_text() == "old"


def test_names_are_printed_safely() -> None:
    assert printable("a\nb\x1b[31m\udcff\u202e") == "a\\nb\\x1b[31m\\xff\\u202e"
    assert printable("größe 数字") == "größe 数字"


@pytest.mark.parametrize("option", ["--output", "--trace", "--report"])
def test_links_that_lead_in_circles_are_reported(cli, feature_model, tmp_path: Path, option: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    outcome = cli("bench", "--model", feature_model, option, tmp_path / "loop")
    assert outcome.status == 2 and outcome.err == f"trninfer: {option} {tmp_path}/loop: {os.strerror(errno.ELOOP)}\n"


def test_each_file_is_written_by_one_option(cli, feature_model, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    for first, second in (("--output", "--trace"), ("--trace", "--report"), ("--output", "--report")):
        outcome = cli("bench", "--model", feature_model, first, tmp_path / "x", second, tmp_path / "link")
        assert outcome.status == 2 and f"{first} and {second} both write" in outcome.err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("option", ["--output", "--report", "--trace"])
def test_names_of_unfinished_answers_are_refused(cli, pictures, picture_model, tmp_path: Path, option: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "w.csv.partial")
    for name in ("w.csv.partial", "link"):
        arguments = ("--format", "csv", "--output", tmp_path / "w.csv") if option != "--output" else ()
        outcome = cli("classify", pictures, "--model", picture_model, *arguments, option, tmp_path / name)
        assert outcome.status == 2 and f"{option} {tmp_path / name}: names that end in .partial" in outcome.err
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_link_that_is_made_during_the_work_is_not_followed(tmp_path: Path) -> None:
    kept, path = tmp_path / "kept.txt", tmp_path / "report.txt"
    kept.write_text("kept")
    check_output(path)
    path.symlink_to(kept)
    write_output("report", path)
    assert kept.read_text() == "kept" and path.read_text() == "report" and not path.is_symlink()
