"""Font families: the held-out ones, the locations of their files, and the packages to install."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trninfer
from trninfer.tools.digits import fonts
from trninfer.tools.digits.font_packages import DEBIAN_PACKAGES
from trninfer.tools.digits.fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES


def test_no_font_is_on_both_sides() -> None:
    assert not set(HELD_OUT_FAMILIES) & set(TRAINING_FAMILIES)
    assert not set(HELD_OUT_FAMILIES.values()) & set(TRAINING_FAMILIES.values())
    assert len(HELD_OUT_FAMILIES) == 19
    assert len(DEBIAN_PACKAGES) == len(set(DEBIAN_PACKAGES))


def test_missing_fonts_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fonts, "FONT_DIRECTORY", tmp_path)
    with pytest.raises(FileNotFoundError, match="fonts not installed: Lato; on Debian 12: apt install"):
        fonts.find_fonts({"Lato": "truetype/lato/*.ttf"})


def test_the_readme_lists_the_packages() -> None:
    text = (Path(trninfer.__file__).resolve().parent / "tools" / "digits" / "README.md").read_text()
    assert tuple(re.findall(r"fonts-[\w-]+", text)) == DEBIAN_PACKAGES


def test_files_of_a_family_are_found_by_its_pattern_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fonts, "FONT_DIRECTORY", tmp_path)
    (tmp_path / "play").mkdir()
    for name in ("x.otf", *(f"{letter}.ttf" for letter in "dbhacgef")):
        (tmp_path / "play" / name).touch()
    found = fonts.find_fonts({"Play": "play/*.ttf", "Aileron": fonts.PILLOW_PATTERN})
    assert found["Aileron"] == [fonts.PILLOW_DEFAULT]
    assert found["Play"] == [tmp_path / "play" / f"{letter}.ttf" for letter in "abcdefgh"]
    with pytest.raises(FileNotFoundError, match="fonts not installed: Hack, Go; on Debian 12"):
        fonts.find_fonts({"Hack": "hack/*.ttf", "Play": "play/*.ttf", "Go": "go/*.ttf"})


def test_what_is_judged_on_is_of_the_training_families() -> None:
    assert set(fonts.VALIDATION_FAMILIES) < set(TRAINING_FAMILIES)
    assert len(fonts.VALIDATION_FAMILIES) == len(set(fonts.VALIDATION_FAMILIES))
    patterns = list(TRAINING_FAMILIES.values())
    assert len(patterns) == len(set(patterns))  # no family has two names


def test_no_file_of_one_side_matches_a_pattern_of_the_other() -> None:
    for own, others in ((HELD_OUT_FAMILIES, TRAINING_FAMILIES), (TRAINING_FAMILIES, HELD_OUT_FAMILIES)):
        for family, pattern in own.items():
            file = Path(re.sub(r"\*+|\[[^]]*\]", "X", pattern))
            assert not [other for other, told in others.items() if file.match(told)], family


@pytest.mark.parametrize("size", [10, 192])
def test_pillows_own_font_at_any_size(size: int) -> None:
    left, top, right, bottom = fonts.load_font(fonts.PILLOW_DEFAULT, size).getbbox("8")
    assert 0.5 * size < bottom - top < size and 0.3 * size < right - left < size
    with pytest.raises(OSError, match="cannot open resource"):
        fonts.load_font(Path("/nowhere/font.ttf"), size)
