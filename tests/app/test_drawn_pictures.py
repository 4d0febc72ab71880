"""Pictures saved by `--save DIR`, with file names and a folder chosen by users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.app.drawn_pictures import DrawnPictures, SavedMaps
from trninfer.app.errors import UsageError
from trninfer.inference.predictions import Prediction


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "saved").mkdir()
    return tmp_path / "saved"


def picture(folder: Path, name: str) -> str:
    path = folder.parent / "pictures" / name
    Image.new("RGB", (9, 8)).save(path, "PNG")
    return str(path)


def answer(name: str) -> Prediction:
    return Prediction(name, None, None, None, (), boxes=(), size=(9, 8))


def saved(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("stem", ["a" * 251, "ü" * 125, "x" + "ü" * 125])
def test_names_as_long_as_a_file_system_allows(folder: Path, stem: str) -> None:
    names = [picture(folder, f"{stem}.png"), picture(folder, f"{stem[:-1]}b.png")]
    drawn, maps = DrawnPictures(folder, names), SavedMaps(folder, names, ("a", "b"))
    for name in names:
        drawn.add(answer(name))
        maps.save(name, np.zeros((8, 9), np.uint8))
    assert not drawn.problems and not maps.problems
    assert len(saved(folder)) == 4  # the maps are named after the pictures


def test_a_map_does_not_replace_an_overlay(folder: Path) -> None:
    names = [picture(folder, name) for name in ("a.png", "a-overlay.png", "a-overlay-2.png")]
    maps = SavedMaps(folder, names, ("a", "b"))
    for name in names:
        maps.save(name, np.zeros((8, 9), np.uint8))
    assert len(saved(folder)) == 6
    for path in folder.iterdir():
        with Image.open(path) as found:
            assert found.mode == ("RGB" if path.stem.endswith("-overlay") and "2-" not in path.stem else found.mode)


def test_links_in_the_folder_are_replaced_and_not_followed(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_text("kept")
    for name in ("a.png", ".a.png.partial"):
        (folder / name).symlink_to(outside)
    name = picture(folder, "a.png")
    DrawnPictures(folder, [name]).add(answer(name))
    assert outside.read_text() == "kept" and not (folder / "a.png").is_symlink()
    with Image.open(folder / "a.png") as found:
        assert found.mode == "RGB"


def test_a_folder_in_the_way_costs_one_picture(folder: Path) -> None:
    (folder / "a.png").mkdir()
    names = [picture(folder, "a.png"), picture(folder, "b.png")]
    drawn = DrawnPictures(folder, names)
    for name in names:
        drawn.add(answer(name))
    assert [problem.message for problem in drawn.problems] == [f"not drawn: {folder / 'a.png'} is a folder"]
    assert saved(folder) == ["a.png", "b.png"]


def test_a_folder_that_is_gone_ends_the_run(folder: Path) -> None:
    name = picture(folder, "a.png")
    drawn = DrawnPictures(folder, [name])
    folder.rmdir()
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        drawn.add(answer(name))
