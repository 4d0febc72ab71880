"""The sets of pictures: caching, splitting, and the sets used for each score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trninfer.tools.digits import sets
from trninfer.tools.digits.fonts import HELD_OUT_FAMILIES, TRAINING_FAMILIES, VALIDATION_FAMILIES
from trninfer.tools.digits.render_digits import Rendering, families_of
from trninfer.tools.digits.render_nondigits import GROUPS, NONE
from trninfer.tools.digits.scoring import Answers


def rendering(labels: list[int], refused: int = 0) -> Rendering:
    images = np.arange(len(labels), dtype=np.float32).reshape(-1, 1, 1, 1)
    return Rendering(images, np.array(labels, np.int32), np.arange(len(labels), dtype=np.int32), refused)


def test_a_set_is_made_once(tmp_path: Path) -> None:
    made = []

    def make() -> Rendering:
        made.append(1)
        return rendering([3, 4], refused=2)

    kept = sets.Sets(tmp_path / "cache")
    first, second = kept.get("some set", make), kept.get("some set", make)
    assert len(made) == 1 and (tmp_path / "cache" / "some_set.npz").is_file()
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one, other)
    sets.Sets(None).get("some set", make)
    assert len(made) == 2
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["some_set.npz"]


def test_parts_and_sums_of_sets() -> None:
    both = sets.joined([rendering([1, 2], 1), rendering([3], 4)])
    assert both.labels.tolist() == [1, 2, 3] and both.refused == 5


def test_the_families_of_a_stream_are_of_its_side() -> None:
    training, judged = families_of("training fonts"), families_of("validation fonts")
    assert families_of("small training fonts") == training and families_of("held-out fonts") == HELD_OUT_FAMILIES
    assert tuple(sorted(judged)) == tuple(sorted(VALIDATION_FAMILIES))
    assert {**training, **judged} == TRAINING_FAMILIES and len(training) + len(judged) == len(TRAINING_FAMILIES)


def answers(classes: list[int], labels: list[int], refused: int = 0) -> Answers:
    return Answers(9 * np.eye(NONE + 1, dtype=np.float32)[classes], np.array(labels, np.int32), refused)


def test_sets_of_each_score(capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        sets.SCORED_ON_DIGITS: answers([1, 2, 2], [1, 2, 3]),
        sets.SCORED_ON_FONTS: answers([NONE, 4], [5, 4], refused=1),
        **{group: answers([NONE, 7], [NONE, NONE], refused=1) for group in GROUPS},
    }
    scores, parts, bins = sets.held_out_scores(given)
    assert scores == [(sets.SCORED_ON_DIGITS, 2, 3), (sets.SCORED_ON_FONTS, 1, 3), (sets.SCORED_ON_SIGNS, 4, 6)]
    assert parts[0] == ("digits wrongly refused", 2, 6)
    assert parts[1:] == [(f"{group} refused", 2, 3) for group in GROUPS]
    assert sum(each.answers for each in bins) == 5 + 2 * len(GROUPS)
    error = sets.print_parts(parts, bins)
    assert error == pytest.approx(1 - 9 / 17, abs=0.01)  # all were certain, and 9 of 17 correct
    assert "digits wrongly refused: 2 of 6, 33.33 %" in capsys.readouterr().out
