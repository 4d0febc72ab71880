"""Boxes on an HTML page: pictures with their boxes drawn, and the precision of each class."""

from __future__ import annotations

from ...inference.palette import series_color
from ...inference.predictions import Prediction
from ..text import count
from .box_table import precision_columns, score_line
from .html_markup import Markup, element, fragment
from .html_tables import column_table
from .report import Report
from .thumbnails import drawn_thumbnail

SHOWN_PICTURES = 48
SHOWN_BOXES = 12  # maximum number of boxes listed as text per picture


def boxes_section(report: Report) -> Markup:
    """Return a section that shows the first pictures with their boxes."""
    predictions = report.predictions[:SHOWN_PICTURES]
    total = len(report.predictions) if report.answer_count is None else report.answer_count
    more = f"The first {len(predictions)} of {total:,} pictures." if len(predictions) < total else None
    return element(
        "section",
        element("h2", "Boxes"),
        element("p", more, class_="lead") if more else None,
        element("div", [_figure(answer) for answer in predictions], class_="found"),
    )


def _figure(answer: Prediction) -> Markup:
    """Return a picture with its boxes, and one line of text for each of the first boxes."""
    boxes = answer.boxes or ()
    source = drawn_thumbnail(str(answer.input), boxes, answer.size)
    lines = [
        element(
            "div",
            element("span", class_="swatch", style=f"--own:{series_color(box.class_index)}"),
            f"{box.label} {box.confidence:.2f}",
        )
        for box in boxes[:SHOWN_BOXES]
    ]
    left = len(boxes) - SHOWN_BOXES
    return element(
        "figure",
        element("img", src=source, alt=answer.text[:200] or "no objects") if source else None,
        element(
            "figcaption",
            element("b", str(answer.input)),
            lines or "no objects",
            element("div", f"and {left} more") if left > 0 else None,
        ),
    )


def box_score_section(report: Report) -> Markup | None:
    """Return the mean average precision by class, or None if boxes were not scored."""
    score = report.box_score
    if score is None:
        return None
    note = count(score.unlabelled, "picture") + " without annotations: not scored" if score.unlabelled else None
    return element(
        "section",
        element("h2", "Score"),
        element("p", score_line(score, report.limits), class_="lead"),
        fragment(element("p", note, class_="note")) if note else None,
        column_table("Average precision by class", precision_columns(), score.classes) if score.classes else None,
    )
