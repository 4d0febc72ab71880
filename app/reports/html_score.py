"""Scores on an HTML page: a table of classes, and a shaded confusion matrix."""

from __future__ import annotations

from ...inference.map_scoring import MapScore
from ...inference.scoring import Score
from .area_table import iou_columns, map_score_line, worst_ious
from .html_markup import Markup, element
from .html_tables import column_table
from .report import Report
from .score_table import class_columns, score_line, worst_classes

MATRIX_CLASSES = 40  # maximum number of classes for which the whole confusion matrix is shown
SHOWN_CLASSES = 60
SHOWN_CONFUSIONS = 30


def score_section(report: Report) -> Markup | None:
    """Return the score of a report, or None if predictions were not scored."""
    if report.map_score is not None:
        return _map_section(report.map_score)
    score = report.score
    if score is None or not score.total:
        return None
    line = element("p", score_line(score), class_="lead")
    return element("section", element("h2", "Score"), line, _classes(score), _confusions(score))


def _map_section(score: MapScore) -> Markup:
    """Return the intersection over union of the classes of class maps."""
    line = element("p", map_score_line(score), class_="lead")
    table = column_table("Intersection over union", iou_columns(), worst_ious(score, SHOWN_CLASSES)[0])
    return element("section", element("h2", "Score"), line, table)


def _classes(score: Score) -> Markup:
    classes, few = worst_classes(score, SHOWN_CLASSES)
    note = element("p", f"{few[0].upper()}{few[1:]}.", class_="note") if few else None
    return element("div", note, column_table("By class", class_columns(), classes))


def _confusions(score: Score) -> Markup:
    if len(score.classes) > MATRIX_CLASSES:
        mistakes = score.mistakes[:SHOWN_CONFUSIONS]
        lines = [
            element("li", f"{mistake.label} answered {mistake.predicted}: {mistake.count}") for mistake in mistakes
        ]
        return element("div", element("h3", "Most frequent confusions"), element("ul", lines))
    labels = [right.label for right in score.classes]
    counts = {(pair.label, pair.predicted): pair.count for pair in score.confusion}
    rows = []
    for right in score.classes:
        cells = []
        for predicted in labels:
            number = counts.get((right.label, predicted), 0)
            share = round(100 * number / max(right.support, 1))
            kind = "hit" if right.label == predicted else "miss"
            cells.append(element("td", str(number or ""), class_=kind, style=f"--share: {share}%"))
        rows.append(element("tr", element("th", right.label, scope="row"), cells))
    note = element("p", "Each row is a correct label, and each column a predicted label.", class_="note")
    heads = element("thead", element("tr", [element("th", text, scope="col") for text in ("", *labels)]))
    matrix = element("table", heads, element("tbody", rows), class_="matrix")
    return element(
        "div", element("h3", "Confusion matrix"), note, element("div", matrix, class_="scroll", tabindex="0")
    )
