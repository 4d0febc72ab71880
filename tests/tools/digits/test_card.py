"""The card of digits-cnn contains every given number, and states which goals were reached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, Dense, Flatten, Softmax
from trninfer.models.network import Network
from trninfer.tools.digits.calibration import Bin
from trninfer.tools.digits.card import Round, Training, describe_layers, verdict, write_card
from trninfer.tools.digits.render_digits import Rendering
from trninfer.tools.digits.render_nondigits import NONE
from trninfer.tools.digits.scoring import Score
from trninfer.tools.digits.sets import SCORED_ON_DIGITS, SCORED_ON_FONTS, SCORED_ON_SIGNS

NETWORK = Network(
    "small",
    ImageInput(1, 8, 8, "digit", (0.0,), (1.0,)),
    (
        Conv2d("conv1", 1, 3, kernel_size=(3, 3), padding=(1, 1, 1, 1), pool_size=2, activation="relu"),
        Flatten("flatten"),
        Dense("output", 48, 2),
        Softmax("softmax"),
    ),
    ("0", "none"),
)


def source(digits: int, none: int) -> Rendering:
    labels = np.array([3] * digits + [NONE] * none, np.int32)
    return Rendering(np.zeros((len(labels), 1, 8, 8), np.float32), labels, np.arange(len(labels), dtype=np.int32), 0)


def scores(fonts: int, refused: int) -> tuple[list[Score], list[Score]]:
    given = [(SCORED_ON_DIGITS, 381, 382), (SCORED_ON_FONTS, fonts, 2000), (SCORED_ON_SIGNS, 1850, 1900)]
    return given, [("digits wrongly refused", refused, 2382), ("letters refused", 190, 200)]


def test_layers_in_a_line() -> None:
    assert describe_layers(NETWORK) == "conv 3x3, 1 → 3, relu, max pool 2; flatten; dense 48 → 2; softmax"


def test_what_was_reached_is_distinguished() -> None:
    told = verdict(*scores(1980, 13), 0.0099)
    reached, _, missed = told.partition(" Not reached: ")
    assert "held-out fonts" in reached and "calibration error" in reached and "pictograms refused" in reached
    assert missed == "digits wrongly refused."
    assert "Not reached: accuracy, held-out fonts; calibration error." in verdict(*scores(1979, 11), 0.0101)


def test_the_card_has_the_figures(tmp_path: Path) -> None:
    training = Training(
        {"a": source(7, 2), "b": source(0, 4)},
        ({"a": 5}, {"a": 6, "b": 9}),
        (
            Round(NETWORK, 1000, 4e-3, 0.2, shares=1),
            Round(NETWORK, 30, 1e-3, 0.3, after=0, taught_by=(0, 0), sure=("b",), validation_fonts=True),
        ),
        0.005,
        1.5,
        0.7,
    )
    write_card(tmp_path / "card.md", NETWORK, training, *scores(1990, 9), [Bin(10, 0.9, 0.8), Bin(30, 0.5, 0.5)], 2)
    card = (tmp_path / "card.md").read_text("utf-8")
    for part in (
        "| parameters | 128 (float32) |",
        "7 images of digits and 6 of non-digits",
        "| a | 9 | 5 | 6 |",
        "| b | 4 | 0 | 9 |",
        "| 1 | 3 | random weights | the labels | B | 1,000 | 0.004 |",
        "| 2 | 3 | the average of round 1 | the answers of round 1 and 1, the labels of b",
        "the labels of b, the validation fonts as well | A | 30 | 0.001 |",
        "2 of these 40 answers differ.",
        "| accuracy, held-out fonts | 1990 of 2000, 99.50 % |",
        "| letters refused | 190 of 200, 95.00 % |",
        "| expected calibration error | 0.0250 |",
        "1.50\nis subtracted",
        "temperature of 0.70",
        "at most 0.5 %",
        "over all 40 held-out",
        "Canadian Aboriginal",
    ):
        assert part in card, part
    assert "$" not in card
