"""The samples: the existing files, and the steps that draw them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.tools.digits import make_samples
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.make_samples import (
    SAMPLES_DIRECTORY,
    axes,
    compose,
    handwritten,
    letter,
    make_pictures,
    make_several,
    texture,
)
from trninfer.tools.digits.uci import Digits

Made = dict[str, tuple[Image.Image, dict]]


@pytest.fixture(scope="module")
def made() -> Made:
    """Draw the samples in Pillow's own font, with bars instead of handwriting, so that neither fonts nor scikit-learn
    are needed."""
    with pytest.MonkeyPatch.context() as patch:
        stand_in(patch)
        return make_pictures()


def stand_in(patch: pytest.MonkeyPatch) -> None:
    features = np.zeros((80, 8, 8), np.float32)
    features[:, 1:7, 3:5] = 16
    held_out = Digits(features.reshape(80, 64), np.arange(80, dtype=np.int32) % 10)
    patch.setattr(make_samples, "find_fonts", lambda families: {family: [PILLOW_DEFAULT] for family in families})
    patch.setattr(make_samples, "load_split", lambda: (held_out, held_out))


def test_the_files_of_the_samples_are_of_these_names_sizes_and_modes(made: Made) -> None:
    files = {path.name: path for path in SAMPLES_DIRECTORY.iterdir() if path.suffix in (".png", ".jpg")}
    assert made.keys() == files.keys()
    for name, (picture, _) in made.items():
        with Image.open(files[name]) as sample:
            assert (sample.size, sample.mode) == (picture.size, picture.mode), name


def test_each_is_named_by_its_digit_and_has_ink(made: Made) -> None:
    assert sorted(name[0] for name in made) == list("23456789")
    for name, (picture, options) in made.items():
        assert set(options) <= {"quality", "exif"}
        bands = [np.ptp(np.asarray(band)) for band in picture.split()]
        assert max(bands) > 100, name


def test_samples_of_several_digits_are_in_a_separate_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    files = {path.name: path for path in (SAMPLES_DIRECTORY / "several-digits").iterdir()}
    made = make_several()
    assert made.keys() == files.keys()
    for name, (picture, _) in made.items():
        with Image.open(files[name]) as sample:
            assert (sample.size, sample.mode) == (picture.size, picture.mode), name


def test_samples_are_reproducible(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    for name, (picture, _) in make_pictures().items():
        np.testing.assert_array_equal(np.asarray(picture), np.asarray(made[name][0]), err_msg=name)


def test_the_photo_is_turned_as_its_camera_was(made: Made) -> None:
    picture, options = made["9-phone-photo.jpg"]
    assert picture.size == (600, 800) and options["exif"][0x0112] == 6


def test_samples_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr(make_samples, "make_pictures", lambda: {"1-x.png": (Image.new("L", (9, 9), 7), {})})
    monkeypatch.setattr(sys, "argv", ["make_samples", str(tmp_path / "new")])
    make_samples.main()
    with Image.open(tmp_path / "new" / "1-x.png") as picture:
        assert picture.getpixel((0, 0)) == 7
    assert np.fromfile(tmp_path / "new" / "digits-X.bin", "<f4").reshape(-1, 64).max() == 16
    assert np.fromfile(tmp_path / "new" / "digits-Y.bin", "<i4").tolist() == [n % 10 for n in range(80)]


def test_ink_on_paper_under_a_light() -> None:
    ink = Image.fromarray(np.array([[0, 255], [51, 0]], np.uint8))
    light = np.array([[[1.0], [0.5]], [[1.0], [2.0]]])
    grain = np.array([[[0.0], [0.0]], [[5.0], [0.0]]])
    pixels = np.asarray(compose(ink, (200, 100, 50), (100, 200, 0), light, grain))
    np.testing.assert_array_equal(pixels[0, 0], (200, 100, 50))  # paper
    np.testing.assert_array_equal(pixels[0, 1], (50, 100, 0))  # pen at half the light
    np.testing.assert_array_equal(pixels[1, 0], (185, 125, 45))  # a fifth of the way, and 5 of grain
    np.testing.assert_array_equal(pixels[1, 1], (255, 200, 100))  # no lighter than white


@pytest.mark.parametrize("grain", [0.8, 6])
def test_textures_have_mean_0_deviation_1_and_their_grain(grain: float) -> None:
    noise = texture((120, 80), grain, np.random.default_rng(0))
    assert noise.shape == (80, 120, 1)
    assert noise.mean() == pytest.approx(0, abs=1e-4) and noise.std() == pytest.approx(1, abs=1e-4)
    neighbours = np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]
    assert (neighbours > 0.95) == (grain == 6)


def test_a_letter_is_where_it_is_put_and_turned_about_there() -> None:
    for turn in (0, 30):
        ink = np.asarray(letter(8, (200, 100), (150, 40), 60, PILLOW_DEFAULT, turn), np.float32)
        assert ink.shape == (100, 200) and ink.max() == 255
        ys, xs = np.mgrid[:100, :200]
        assert (ink * xs).sum() / ink.sum() == pytest.approx(150, abs=3)
        assert (ink * ys).sum() / ink.sum() == pytest.approx(40, abs=4)


def test_handwriting_is_centred_and_sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    ink = np.asarray(handwritten(3, 0, (200, 160), (120, 70), 80), np.float32)
    ys, xs = np.nonzero(ink > 128)
    assert abs((xs.min() + xs.max()) / 2 - 120) <= 2 and abs((ys.min() + ys.max()) / 2 - 70) <= 2
    assert 45 < np.ptp(ys) < 65  # six of ten rows, plus the margin, rounded
    assert ((ink > 20) & (ink < 235)).sum() < 0.5 * (ink > 128).sum()


def test_axes_go_from_one_edge_to_the_other() -> None:
    x, y = axes((5, 3))
    assert x.shape == y.shape == (3, 5, 1)
    np.testing.assert_array_equal(x[0, :, 0], [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_array_equal(y[:, 0, 0], [-1, 0, 1])
