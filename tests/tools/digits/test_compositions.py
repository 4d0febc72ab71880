"""Compositions in Pillow's own font: boxes enclose the ink of their digits, and pictures are reproducible."""

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from trninfer.tools.digits import compositions
from trninfer.tools.digits.compositions import SIDE, compose, letterbox
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.uci import Digits


@pytest.fixture(autouse=True)
def pillows_font(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use Pillow's font, so that neither fonts nor scikit-learn are needed."""
    features = np.zeros((1797, 8, 8), np.float32)
    features[:, 1:7, 3:5] = 16
    digits = Digits(features.reshape(-1, 64), np.arange(1797, dtype=np.int32) % 10)
    monkeypatch.setattr(compositions, "find_fonts", lambda families: {name: [PILLOW_DEFAULT] for name in families})
    monkeypatch.setattr(compositions, "load_split", lambda: (digits, digits))
    compositions._sources.cache_clear()
    yield
    compositions._sources.cache_clear()


def test_boxes_are_inside_and_apart() -> None:
    count = 0
    for index in range(12):
        picture, boxes = compose("training", index)
        assert picture.mode == "L" and ((boxes[:, 0] >= 0) & (boxes[:, 0] <= 9)).all()
        assert (
            (boxes[:, 1:3] >= 0).all() and (boxes[:, 3:] <= picture.size).all() and (boxes[:, 3:] > boxes[:, 1:3]).all()
        )
        count += len(boxes)
    assert count > 20


def test_the_same_index_is_the_same_picture_and_sides_differ() -> None:
    (first, boxes), (again, same), (other, _) = compose("training", 3), compose("training", 3), compose("held-out", 3)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(again))
    np.testing.assert_array_equal(boxes, same)
    assert first.size != other.size or not np.array_equal(np.asarray(first), np.asarray(other))


def test_a_letterbox_moves_boxes_with_the_picture() -> None:
    picture = Image.new("L", (200, 100), 255)
    picture.paste(0, (20, 40, 60, 80))
    found = letterbox(picture, np.array([[7, 20, 40, 60, 80]], np.float32))
    x1, y1, x2, y2 = found.boxes[0, 1:]
    assert (x1, x2 - x1, found.boxes[0, 0]) == pytest.approx((20 * SIDE / 200, 40 * SIDE / 200, 7))
    dark = np.argwhere(found.image < 60)
    assert dark.min(axis=0) == pytest.approx((y1, x1), abs=1.5) and dark.max(axis=0) == pytest.approx((y2, x2), abs=1.5)
    assert (found.image[:30] == 114).all()
