"""Finding pictures."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.app.inputs import PICTURE_SUFFIXES, STANDARD_INPUT, find_pictures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.png", "a.JPG", ".hidden.png", "notes.txt", "c.webp", "sub/d.png", "weird[1].png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def names(arguments: list[object]) -> list[str]:
    found, problems = find_pictures([str(argument) for argument in arguments])
    assert problems == []
    return [Path(path).name for path in found]


def test_folders_are_sorted_and_searched_for_pictures(folder: Path) -> None:
    assert names([folder]) == ["a.JPG", "b.png", "c.webp", "weird[1].png"]


def test_named_files_are_always_tried_and_keep_their_order(folder: Path) -> None:
    assert names([folder / "notes.txt", folder / "b.png", folder / ".hidden.png", folder / "a.JPG"]) == [
        "notes.txt", "b.png", ".hidden.png", "a.JPG"
    ]  # fmt: skip


def test_globs(folder: Path) -> None:
    assert names([f"{folder}/*.png"]) == ["b.png", "weird[1].png"]
    assert names([f"{folder}/weird[1].png"]) == ["weird[1].png"]  # a file of that name is no pattern
    assert names([f"{folder}/*"]) == ["a.JPG", "b.png", "c.webp", "notes.txt", "weird[1].png"]


def test_each_once(folder: Path) -> None:
    (folder / "link.png").symlink_to(folder / "b.png")
    assert names([folder / "b.png", folder / "link.png", f"{folder}/sub/../b.png", STANDARD_INPUT, STANDARD_INPUT]) == [
        "b.png", "-"
    ]  # fmt: skip


def test_what_is_not_there_is_told(folder: Path) -> None:
    found, problems = find_pictures([str(folder / "x.png"), str(folder / "b.png"), f"{folder}/*.gif", "", "a\0b"])
    assert [Path(path).name for path in found] == ["b.png"]
    assert [problem.message for problem in problems] == [
        "no such file or folder", "no file matches", "not the name of a file", "not the name of a file"
    ]  # fmt: skip


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_argument_is_found_or_told(arguments: list[str]) -> None:
    found, problems = find_pictures([f"no such place {argument}" for argument in arguments])
    assert found == [] and len(problems) == len(arguments)


def test_suffixes_are_those_of_the_formats_that_are_read() -> None:
    from PIL import Image
    from trninfer.models.preprocess import FORMATS

    Image.init()
    readable = {suffix for suffix, name in Image.registered_extensions().items() if name in FORMATS}
    assert readable >= PICTURE_SUFFIXES
