"""Signs that are not digits; none is used for both training and testing."""

from __future__ import annotations

from pathlib import Path

import pytest
from trninfer.tools.digits import signs
from trninfer.tools.digits.fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES


def dejavu() -> Path:
    """Return a font with Latin, Greek, Cyrillic, Hebrew, Arabic and symbols, which matplotlib includes."""
    pytest.importorskip("fontTools")
    matplotlib = pytest.importorskip("matplotlib")
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


def test_no_family_is_on_two_sides() -> None:
    scripts = (*signs.TRAINING_SCRIPTS, *signs.VALIDATION_SCRIPTS, *signs.HELD_OUT_SCRIPTS)
    assert len(set(scripts)) == len(scripts)
    pictograms = [*signs.TRAINING_PICTOGRAMS.values(), *signs.VALIDATION_PICTOGRAMS.values()]
    assert len(set(pictograms)) == len(pictograms) and not set(pictograms) & set(signs.HELD_OUT_PICTOGRAMS.values())
    assert set(VALIDATION_FAMILIES) < set(TRAINING_FAMILIES)
    assert not set(VALIDATION_FAMILIES) & set(HELD_OUT_FAMILIES)


def test_no_pattern_of_a_script_finds_the_font_of_one_on_another_side() -> None:
    for script, pattern in signs.script_patterns(signs.HELD_OUT_SCRIPTS).items():
        for other in (*signs.TRAINING_SCRIPTS, *signs.VALIDATION_SCRIPTS):
            for style in ("Sans", "Serif", "SansLooped", "Kufi"):
                path = Path(f"truetype/noto/Noto{style}{other}-Regular.ttf")
                assert not path.match(pattern), (script, other)


@pytest.mark.parametrize("character", ["7", "٣", "Ⅳ", "½", "⑦", "💯", "🎱", "🔟", "📅"])
def test_numbers_are_numbers(character: str) -> None:
    assert signs.is_number(character)


@pytest.mark.parametrize("character", ["A", "Ж", "ב", "☺", "→", "?"])
def test_letters_are_none(character: str) -> None:
    assert not signs.is_number(character)


def test_the_signs_of_a_font_for_text() -> None:
    given = signs.text_signs(dejavu())
    assert set("AaMK?&Жλ→☺") <= set(given)
    assert not set("0123456789OoIl|ΟоІòÓ½²⑦ \u0301אب") & set(given)


def test_the_signs_of_a_script_and_of_symbols() -> None:
    script, symbols = signs.script_signs(dejavu()), signs.pictogram_signs(dejavu())
    assert set("אبქ") <= set(script)
    assert not set("Aaéẞ?→") & set(script)
    assert set("→☺♞") <= set(symbols)
    assert not set("Aא⑦❶") & set(symbols)


def test_icons_whose_names_report_a_number() -> None:
    for name in ("numeric-7-box", "timer-10", "roman-numeral", "sort-numeric", "digital"):
        assert signs._names_number(name)
    for name in ("uniF1C9", "_279", "heart", "cat"):
        assert not signs._names_number(name)


def test_a_font_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(signs, "FONT_DIRECTORY", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no font at .*entypo\.ttf; tools/README\.md lists the packages"):
        signs.find_files("truetype/entypo.ttf")
