"""Finding pictures."""

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.features import read_features
from trninfer.inference.pictures import read_picture
from trninfer.inference.search import PICTURE_SUFFIXES, STANDARD_INPUT, _matches, _Search, find_pictures
from trninfer.models import ImageInput
from trninfer.models.errors import InputError


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
    assert names([f"{folder}/weird[1].png"]) == ["weird[1].png"]  # a file with that name is not a pattern
    assert names([f"{folder}/*"]) == ["a.JPG", "b.png", "c.webp", "notes.txt", "weird[1].png"]


def test_each_file_is_found_once_by_whatever_name(folder: Path) -> None:
    (folder / "link.png").symlink_to("b.png")
    (folder / "same").symlink_to(".")
    (folder / "a").symlink_to("sub")
    once = ["a.JPG", "b.png", "c.webp", "weird[1].png"]
    assert names([folder, folder / "same", f"{folder}/*.png", folder / "sub/../b.png"]) == once
    assert names([folder / "link.png", folder]) == ["link.png", "a.JPG", "c.webp", "weird[1].png"]
    assert names([folder / "sub", folder / "a", folder / "a/d.png", folder / "same/a/d.png"]) == ["d.png"]


def test_a_large_folder_is_not_asked_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number}.png").touch()
    asked = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **options: (asked.append(path), lstat(path, **options))[1])
    assert len(names([tmp_path])) == 50
    assert len(asked) < 50


PARTS = ("*", "?", "a", "b.png", "[ab]*", "[!a]*", ".*", ".h", "..", ".", "", "**", "*.png", "no")


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4), st.booleans())
def test_patterns_mean_what_they_mean_to_glob(tmp_path_factory, parts: list[str], absolute: bool) -> None:
    folder = tmp_path_factory.getbasetemp() / "1/2/3/4/5/tree"  # no pattern leads outside of it
    if not folder.exists():
        for name in ("a/a/b.png", "a/b.png", "a/.h/c.png", "b/a/d.png", "b.png", ".h/a.png", "[ab]"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        (folder / "no").symlink_to("nowhere")
    pattern = f"{folder}/{'/'.join(parts)}" if absolute else "/".join(parts)
    before = os.getcwd()
    os.chdir(folder)
    try:
        found = _Search(False)
        assert sorted(_matches(pattern, found)) == sorted(glob.glob(pattern)) and found.problems == []
    finally:
        os.chdir(before)


def test_each_once(folder: Path) -> None:
    (folder / "link.png").symlink_to(folder / "b.png")
    assert names([folder / "b.png", folder / "link.png", f"{folder}/sub/../b.png", STANDARD_INPUT, STANDARD_INPUT]) == [
        "b.png", "-"
    ]  # fmt: skip


URL = "https://host.example/a.png?size=[28]"


def test_missing_file_is_reported(folder: Path) -> None:
    found, problems = find_pictures([str(folder / "x.png"), str(folder / "b.png"), f"{folder}/*.gif", "", "a\0b", URL])
    assert [Path(path).name for path in found] == ["b.png"]
    assert [problem.message for problem in problems] == [
        "no such file or folder", "no file matches", "not a valid file name", "not a valid file name",
        "URLs are not supported; download the file and pass its path",
    ]  # fmt: skip


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_argument_is_found_or_reported(arguments: list[str]) -> None:
    found, problems = find_pictures([f"no such place {argument}" for argument in arguments])
    assert found == [] and len(problems) == len(arguments)


def test_suffixes_are_those_of_the_formats_that_are_read() -> None:
    from PIL import Image
    from trninfer.models.preprocess import FORMATS

    Image.init()
    readable = {suffix for suffix, name in Image.registered_extensions().items() if name in FORMATS}
    # found, with a message naming the package that can read them
    unread = {".avif"} if "AVIF" not in FORMATS else set()
    assert readable >= PICTURE_SUFFIXES - unread


def test_recursive(folder: Path) -> None:
    (folder / "sub" / "deep" / "er").mkdir(parents=True)
    (folder / "sub" / "deep" / "er" / "e.png").touch()
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "f.png").touch()
    found, problems = find_pictures([str(folder)], recursive=True)
    assert problems == []
    assert [os.path.relpath(path, folder) for path in found] == [
        "a.JPG", "b.png", "c.webp", "weird[1].png", "sub/d.png", "sub/deep/er/e.png"
    ]  # fmt: skip
    assert find_pictures([f"{folder}/s*"], recursive=True)[0] == found[-2:]


def test_recursive_search_ends_at_circular_links(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / "sub" / name).symlink_to(folder, target_is_directory=True)
    (folder / "self.png").symlink_to("self.png")
    found, problems = find_pictures([str(folder)], recursive=True)
    assert len(found) == 6 and problems == []  # includes the link to itself, which is reported when it is read


def test_a_folder_of_folders_is_reported_how_to_be_searched(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    advice = "no pictures in this folder; --recursive searches its subfolders"
    assert find_pictures([str(tmp_path)])[1][0].message == advice
    assert find_pictures([str(tmp_path)], recursive=True)[1][0].message == "no pictures in this folder"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "not a regular file"),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: None, "no such file"),
    ],
)
def test_irregular_file_is_reported_without_waiting(tmp_path: Path, make, message: str) -> None:
    path = tmp_path / "x.png"
    make(path)
    with pytest.raises(InputError, match=f"^{message}$"):
        read_picture(str(path), ImageInput(1, 16, 16, "digit", (0.0,), (1.0,)))
    (tmp_path / "x.bin").symlink_to(path)
    with pytest.raises(InputError, match=f": {message}$"):
        read_features(tmp_path / "x.bin", 4)


def test_files_without_permission(unprivileged: Path) -> None:
    (unprivileged / "x.png").touch(mode=0)
    (unprivileged / "sub").mkdir(mode=0)
    found, problems = find_pictures([str(unprivileged)], recursive=True)
    assert len(found) == 1 and [p.message for p in problems] == ["cannot be read: Permission denied"]
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_picture(found[0], ImageInput(1, 16, 16, "digit", (0.0,), (1.0,)))


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_folders_without_permission_in_a_pattern_are_reported(unprivileged: Path, mode: int) -> None:
    for name in ("open", "shut"):
        (unprivileged / name).mkdir()
        (unprivileged / name / "1.png").touch()
    (unprivileged / "shut").chmod(mode)
    listed = (["open/1.png", "shut/1.png"], []) if mode == 0o400 else (["open/1.png"], [str(unprivileged / "shut")])
    found, problems = find_pictures([f"{unprivileged}/*/*.png"])
    assert ([os.path.relpath(path, unprivileged) for path in found], [problem.input for problem in problems]) == listed
    assert all(problem.message == "cannot be read: Permission denied" for problem in problems)
    found, problems = find_pictures([f"{unprivileged}/*/1.png"])
    assert len(found) + len(problems) == 2 and (mode == 0o100 or len(problems) == 1)
    found, problems = find_pictures([f"{unprivileged}/shut/*.jpg"])
    assert found == [] and len(problems) == 1


@pytest.mark.parametrize("name", ["x.bin", "x.npy", "x.npz", "x.csv"])
def test_features_without_permission(unprivileged: Path, name: str) -> None:
    (unprivileged / name).touch(mode=0)
    with pytest.raises(InputError, match=f"{name}: cannot be read: Permission denied$"):
        read_features(unprivileged / name, 4)
