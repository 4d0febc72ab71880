"""Scores on a page: tables of classes and the confusion matrix, or the most frequent confusions if there are many
classes."""

from __future__ import annotations

from trninfer.app.reports.html_score import MATRIX_CLASSES, SHOWN_CLASSES, score_section
from trninfer.app.reports.report import Report
from trninfer.inference.scoring import ClassScore, Confusion, Score


def page_of(score: Score | None) -> str:
    report = Report("classify", "n", "sim", "trn2", "float32", "predicted", score=score)
    return score_section(report) or ""


def test_a_matrix_has_a_cell_for_each_pair() -> None:
    classes = (ClassScore("<cat>", 0, 4, 3, 3), ClassScore("dog", 1, 1, 2, 1))
    confusion = (Confusion("<cat>", "<cat>", 3), Confusion("<cat>", "dog", 1), Confusion("dog", "dog", 1))
    page = page_of(Score(4, 5, 5, classes, confusion))
    assert "&lt;cat&gt;" in page and "<cat>" not in page
    assert page.count('class="hit"') == page.count('class="miss"') == 2
    assert (
        '<td class="hit" style="--share: 75%">3</td>' in page and '<td class="miss" style="--share: 25%">1</td>' in page
    )
    assert "score: 4 of 5 correct, 80.00 %; top 5: 100.00 %" in page


def test_many_classes_have_a_list() -> None:
    count = max(MATRIX_CLASSES, SHOWN_CLASSES) + 1
    classes = tuple(ClassScore(f"c{n}", n, 2, 2, 1) for n in range(count))
    confusion = tuple(Confusion(f"c{n}", f"c{(n + 1) % count}", n + 1) for n in range(count))
    page = page_of(Score(count, 2 * count, None, classes, confusion))
    assert f"The {SHOWN_CLASSES} of {count} classes with the lowest F1." in page and 'class="matrix"' not in page
    assert page.index(f"c{count - 1} answered c0") < page.index(f"c{count - 2} answered")


def test_page_without_score_has_no_section() -> None:
    assert page_of(None) == page_of(Score(0, 0, unlabelled=3)) == ""
