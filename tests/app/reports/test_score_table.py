"""Scores in a terminal: by class and as a matrix, or the worst classes if there are many."""

from __future__ import annotations

from trninfer.app.reports.console import to_text
from trninfer.app.reports.report import Report
from trninfer.app.reports.score_table import MATRIX_CLASSES, SHOWN_CLASSES, print_score, score_line
from trninfer.inference.predictions import LabelProbability, Prediction
from trninfer.inference.scoring import Score, Scorer


def scored(labels: list[str], pairs: list[tuple[int, int]], unlabelled: int = 0) -> Score:
    """Return the score of pairs (correct class, predicted class)."""
    scorer = Scorer(labels, 5)
    for right, given in [*pairs, *[(None, 0)] * unlabelled]:
        chance = LabelProbability(labels[given], given, 0.5)
        scorer.add(Prediction("x", labels[given], given, 0.5, (chance,)), right)
    return scorer.score


def shown(score: Score, quiet: bool = False, fail_under: float | None = None) -> list[str]:
    report = Report("classify", "n", "sim", "trn2", "float32", "predicted", score=score, fail_under=fail_under)
    return to_text(lambda console: print_score(console, report, quiet), None).splitlines()


def test_a_few_classes_are_shown_whole() -> None:
    lines = shown(scored(["cat", "dog", "no"], [(0, 0), (0, 0), (0, 1), (1, 1)], unlabelled=2), fail_under=0.8)
    assert lines[:3] == [
        "score: 3 of 4 correct, 75.00 %; macro F1 0.733",
        "2 answers without a label: not scored",
        "accuracy 0.7500 is below --fail-under 0.8",
    ]
    rows = [line.split() for line in lines]
    assert ["cat", "3", "1.000", "0.667", "0.800"] in rows and ["dog", "1", "0.500", "1.000", "0.667"] in rows
    assert ["cat", "2", "1"] in rows and ["dog", ".", "1"] in rows  # the matrix
    assert not any("no" in row for row in rows if row)  # neither a correct nor a predicted class


def test_many_classes_are_sorted_from_the_worst() -> None:
    count = max(SHOWN_CLASSES, MATRIX_CLASSES) + 5
    labels = [f"c{n}" for n in range(count)]
    lines = shown(scored(labels, [(n, n) for n in range(count)] + [(7, 8)] * 3))
    assert f"the {SHOWN_CLASSES} of {count} classes with the lowest F1" in lines
    rows = [line.split()[:1] for line in lines]
    assert rows.index(["c7"]) == 5 and "c7 answered c8: 3" in lines
    assert ["c1"] in rows and [f"c{count - 1}"] not in rows


def test_quiet_is_one_line_and_nothing_scored_no_table() -> None:
    assert shown(scored(["a", "b"], [(0, 0)]), quiet=True) == ["score: 1 of 1 correct, 100.00 %; macro F1 1.000"]
    assert shown(scored(["a", "b"], [], unlabelled=1)) == [
        "score: 0 of 0 correct, 0.00 %",
        "1 answer without a label: not scored",
    ]
    assert score_line(Score(1, 2, top_5=2)) == "score: 1 of 2 correct, 50.00 %; top 5: 100.00 %"
