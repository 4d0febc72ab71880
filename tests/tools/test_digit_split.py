"""The split of the UCI digits by form, and the held-out fonts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import trninfer
from trninfer.tools import digits
from trninfer.tools.font_packages import DEBIAN_PACKAGES
from trninfer.tools.fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES


def test_the_sample_batch_is_the_held_out_forms() -> None:
    pytest.importorskip("sklearn")
    training, held_out = digits.load_split()
    assert len(training.labels) + len(held_out.labels) == 1797
    samples = Path(trninfer.__file__).resolve().parent / "samples"
    np.testing.assert_array_equal(np.fromfile(samples / "digits-X.bin", "<f4").reshape(-1, 64), held_out.features)
    np.testing.assert_array_equal(np.fromfile(samples / "digits-Y.bin", "<i4"), held_out.labels)


def test_labels_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="no form starts at digit 0"):
        digits.check_forms(np.zeros(1797, np.int32))
    with pytest.raises(ValueError, match="12 digits, but the split was made for 1797"):
        digits.check_forms(np.arange(12))


def test_no_digit_of_the_held_out_forms_is_in_training_as_well() -> None:
    pytest.importorskip("sklearn")
    training, held_out = digits.load_split()
    seen = {row.tobytes() for row in training.features}
    assert not [row for row in held_out.features if row.tobytes() in seen]


def test_no_font_is_on_both_sides() -> None:
    assert not set(HELD_OUT_FAMILIES) & set(TRAINING_FAMILIES)
    assert not set(HELD_OUT_FAMILIES.values()) & set(TRAINING_FAMILIES.values())
    assert len(HELD_OUT_FAMILIES) == 19
    assert len(DEBIAN_PACKAGES) == len(set(DEBIAN_PACKAGES))


def test_an_enlarged_digit_keeps_its_ink() -> None:
    features = np.zeros((8, 8), np.float32)
    features[2:6, 3:5] = 16
    picture = np.asarray(digits.as_picture(features), np.float32)
    assert picture.shape == (160, 160)
    assert picture[:32].min() == picture[-32:].min() == 255
    ink = (255 - picture).sum() / 255 / (12 * 12)
    assert ink == pytest.approx(8, rel=0.05)


def test_what_find_fonts_says_of_missing_fonts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from trninfer.tools import fonts

    monkeypatch.setattr(fonts, "FONT_DIRECTORY", tmp_path)
    with pytest.raises(FileNotFoundError, match="fonts not installed: Lato; on Debian 12: apt install"):
        fonts.find_fonts({"Lato": "truetype/lato/*.ttf"})


def test_the_readme_lists_the_packages() -> None:
    text = (Path(trninfer.__file__).resolve().parent / "tools" / "README.md").read_text()
    assert tuple(re.findall(r"fonts-[\w-]+", text)) == DEBIAN_PACKAGES
