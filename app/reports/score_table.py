"""Print scores: the accuracy, a line for each class, and the most frequent confusions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ...inference.scoring import ClassScore, Score
from ..text import count
from .columns import ReportColumn, number_column, worst
from .console import cell, new_table, print_line, print_table
from .report import Report

MATRIX_CLASSES = 12  # maximum number of classes for which the whole confusion matrix is shown
SHOWN_CLASSES = 20  # if there are more classes, those with the lowest F1 are shown
SHOWN_CONFUSIONS = 10


def print_score(console: Console, report: Report, quiet: bool) -> None:
    """Print the score of a report, if it has one; with `quiet`, omit the tables."""
    score = report.score
    if score is None:
        return
    unlabelled = f"{count(score.unlabelled, 'answer')} without a label" if score.unlabelled else None
    print_score_lines(console, report, score_line(score), unlabelled, f"accuracy {score.accuracy:.4f}")
    if quiet or not score.total:
        return
    _print_classes(console, score)
    _print_confusions(console, score)


def print_score_lines(console: Console, report: Report, line: str, unlabelled: str | None, measure: str) -> None:
    """Print the score in one line, the number of inputs that were not scored, and whether the score satisfies
    --fail-under."""
    print_line(console, line)
    if unlabelled is not None:
        print_line(console, f"{unlabelled}: not scored")
    if report.fail_under is not None:
        verdict = "below" if report.is_below else "not below"
        print_line(console, f"{measure} is {verdict} --fail-under {report.fail_under:g}")


def score_line(score: Score) -> str:
    """Format a score as `score: 97 of 100 correct, 97.00 %; top 5: 99.00 %; macro F1 0.968`."""
    parts = [f"score: {score.correct} of {score.total} correct, {100 * score.accuracy:.2f} %"]
    if score.top_5_accuracy is not None:
        parts.append(f"top 5: {100 * score.top_5_accuracy:.2f} %")
    if score.macro_f1 is not None:
        parts.append(f"macro F1 {score.macro_f1:.3f}")
    return "; ".join(parts)


def worst_classes(score: Score, most: int) -> tuple[Sequence[ClassScore], str]:
    """Return at most `most` classes (the ones with the lowest F1 if there are more), and a note about the selection."""
    return worst(score.classes, lambda each: (each.f1 or 0.0, -each.support), "F1", most)


def _print_classes(console: Console, score: Score) -> None:
    classes, few = worst_classes(score, SHOWN_CLASSES)
    console.print()
    print_line(console, few or "by class", "bold")
    print_table(console, None, class_columns(), classes)


def class_columns() -> list[ReportColumn[ClassScore]]:
    """Return the columns of the scores of classes."""
    return [
        ReportColumn("label", lambda each: each.label),
        number_column("inputs", lambda each: each.support, str),
        number_column("precision", lambda each: each.precision, "{:.3f}".format),
        number_column("recall", lambda each: each.recall, "{:.3f}".format),
        number_column("F1", lambda each: each.f1, "{:.3f}".format),
    ]


def _print_confusions(console: Console, score: Score) -> None:
    if len(score.classes) <= MATRIX_CLASSES:
        labels = [class_score.label for class_score in score.classes]
        counts = {(pair.label, pair.predicted): pair.count for pair in score.confusion}
        console.print()
        print_line(console, "confusion matrix: one row per correct label, one column per predicted label", "bold")
        table = new_table()
        table.add_column("", overflow="fold")
        for label in labels:
            table.add_column(cell(label), justify="right")
        for right in labels:
            table.add_row(cell(right), *(str(counts.get((right, predicted), ".")) for predicted in labels))
        console.print(table)
        console.print()
        return
    for pair in score.mistakes[:SHOWN_CONFUSIONS]:
        print_line(console, f"{pair.label} answered {pair.predicted}: {pair.count}")
    console.print()
