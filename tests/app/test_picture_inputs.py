"""The pictures of `classify`: arguments, lists, and the pictures that remain to be classified."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trninfer.app import picture_inputs
from trninfer.app.errors import UsageError
from trninfer.app.options import PictureOptions
from trninfer.app.picture_inputs import PictureInputs, find_named_pictures
from trninfer.inference.search import InputProblem, find_pictures
from trninfer.models import ImageInput


def test_names_that_print_alike_are_two_inputs(cli, pictures, picture_model, tmp_path) -> None:
    as_byte, as_text = os.fsdecode(bytes(pictures / "0.png")[:-5] + b"\xff.png"), str(pictures / "\\xff.png")
    for name in (as_byte, as_text):
        os.rename(pictures / f"{0 if name == as_byte else 1}.png", name)
    command = ["classify", "--model", picture_model, "--quiet", "--output", tmp_path / "a.csv", "--format", "csv"]
    log = tmp_path / "a.csv.partial"
    assert cli(*command, as_byte, pictures / "none.png").status == 2  # the report contains one of them
    assert cli(*command, "--resume", as_byte).status == 0
    outcome = cli(*command, "--resume", as_byte, as_text)
    assert outcome.status == 2 and "cannot distinguish them" in outcome.err and not log.exists()
    (tmp_path / "a.csv").unlink()
    assert cli(*command, as_text, as_byte).status == 0
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[1].split(",")[0] == lines[2].split(",")[0]


def test_answers_in_a_journal_know_names_apart_that_print_alike(tmp_path) -> None:
    inputs = PictureInputs(
        ["\udcff.png", "\\xff.png"], [], ImageInput(1, 8, 8, "digit", (0.0,), (1.0,)), PictureOptions()
    )
    assert inputs.leave_out({"\\xff.png"}, set()) == 1 and list(inputs._names) == ["\udcff.png"]


def test_lists(tmp_path: Path) -> None:
    stray = b"\xff\xfe [x]*.png"
    (tmp_path / "c.webp").touch()
    names = [b"b.png", b"", b"no such.png\r", stray, b"b.png"]
    (tmp_path / "list").write_bytes(b"\n".join(names))
    found, problems = find_named_pictures([str(tmp_path / "c.webp")], False, str(tmp_path / "list"))
    assert found == [str(tmp_path / "c.webp"), "b.png", "no such.png", os.fsdecode(stray)] and problems == []


@pytest.mark.parametrize("kind", ["folder", "fifo", "missing", "nul"])
def test_lists_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "list")
    if kind == "folder":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "nul":
        path += "\0"
    with pytest.raises(UsageError, match=r"^--from-list .*: (not a regular file|no such file|embedded null.*)$"):
        find_named_pictures([], False, path)


@given(st.binary(max_size=60))
@example(b"a\nb\n\na")
@example(b"a\0b")
def test_any_list_names_files(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "list"
    path.write_bytes(content)
    if b"\0" in content:
        with pytest.raises(UsageError, match="contains NUL bytes"):
            find_named_pictures(["-"], False, str(path))
        return
    found, _ = find_named_pictures(["-"], False, str(path))
    assert len(found) == len(set(found)) and all("\n" not in name for name in found)


def test_lists_and_pictures_do_not_share_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"b.png\n-\n-\n")))
    found, problems = find_named_pictures([], False, "-")
    assert found == ["b.png"]
    assert [(each.input, each.message) for each in problems] == [
        ("-", "standard input contains the list, so it cannot contain a picture as well")
    ] * 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"b.png\n")))
    with pytest.raises(UsageError, match="- and --from-list - both read standard input; use only one of them"):
        find_named_pictures(["-"], False, "-")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match=r"^--from-list -: standard input is not a pipe$"):
        find_named_pictures([], False, "-")


def test_files_that_vanish_after_they_were_listed(cli, pictures: Path, picture_model: Path, monkeypatch) -> None:
    def find_and_remove(*arguments: object) -> object:
        found = find_pictures(*arguments)
        (pictures / "1.png").unlink()
        return found

    monkeypatch.setattr("trninfer.app.picture_inputs.find_pictures", find_and_remove)
    outcome = cli("classify", pictures, "--model", picture_model, "--format", "json")
    report = outcome.json()
    assert outcome.status == 2 and [Path(a["input"]).name for a in report["predictions"]] == ["0.png", "2.png"]
    assert report["errors"] == [{"input": str(pictures / "1.png"), "message": "no such file"}]


SPEC = ImageInput(1, 8, 8, "none", (0.0,), (1.0,))


def test_problems_are_listed_in_order(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy", "c.npy"):
        np.save(tmp_path / name, np.zeros((1, 8, 8), np.float32))
    (tmp_path / "b.npy").write_bytes(b"junk")
    names = [str(tmp_path / name) for name in ("a.npy", "b.npy", "c.npy")]
    inputs = PictureInputs(names, [InputProblem("*.gif", "no file matches")], SPEC, PictureOptions())
    ((batch, values),) = inputs.batches(4)
    inputs.refuse("c.npy", "overflows")
    assert list(batch) == [names[0], names[2]] and np.shape(values) == (2, 1, 8, 8)
    assert [problem.input for problem in inputs.problems] == ["*.gif", names[1], "c.npy"]
    assert inputs.describe(1) == "1 picture" and inputs.identity() == {}


def test_answered_pictures_are_skipped(tmp_path: Path) -> None:
    inputs = PictureInputs(["a.png", "b\udcff.png", "c.png"], [], SPEC, PictureOptions())
    assert inputs.leave_out({"a.png", "b\\xff.png"}, {"b\\xff.png"}) == 1 and list(inputs._names) == ["c.png"]
    alike = PictureInputs(["b\udcff.png", "b\\xff.png"], [], SPEC, PictureOptions())
    with pytest.raises(UsageError, match=r"^--resume: 2 pictures have the same spelling b\\xff.png in a report, so"):
        alike.leave_out({"b\\xff.png"}, {"b\\xff.png"})
    np.save(tmp_path / "x.npy", np.zeros((3, 1, 8, 8), np.float32))
    path = str(tmp_path / "x.npy")
    several = PictureInputs([path], [], SPEC, PictureOptions())
    assert several.leave_out({f"{path}[1]"}, set()) == 1  # some examples of a file may remain
    ((batch, _),) = several.batches(4)
    assert list(batch) == [f"{path}[0]", f"{path}[2]"]


@pytest.mark.parametrize(
    ("names", "options", "is_sent"),
    [
        (["a.png"], {"cores": 2}, True),
        (["a.png"], {"cluster": "auto"}, True),
        (["a.png"], {}, False),
        (["a.png"], {"cores": 2, "verify": True}, False),
        (["a.png", "b.npy"], {"cores": 2}, False),
    ],
)
def test_workers_decode_what_is_not_needed_here(names, options, is_sent) -> None:
    assert (PictureInputs(names, [], SPEC, PictureOptions(**options)).prepare is not None) == is_sent


@pytest.mark.parametrize(
    ("output", "is_kept"), [(None, False), (Path("/dev/null"), False), (Path("answers.csv"), True)]
)
def test_states_are_recorded_if_answers_are_kept(output, is_kept) -> None:
    assert (PictureInputs(["a.png"], [], SPEC, PictureOptions(output=output)).states is not None) == is_kept


def test_a_list_may_not_be_endless(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(picture_inputs, "MAX_LIST_BYTES", 6)
    (tmp_path / "list").write_bytes(b"a.png\n")
    assert picture_inputs.read_list(str(tmp_path / "list")) == ["a.png"]
    (tmp_path / "list").write_bytes(b"ab.png\n")
    with pytest.raises(UsageError, match="larger than 0 MiB, the limit for lists of pictures"):
        picture_inputs.read_list(str(tmp_path / "list"))
    with pytest.raises(UsageError, match="contains no names of pictures"):
        (tmp_path / "list").write_bytes(b"\n\n")
        find_named_pictures([], False, str(tmp_path / "list"))
