"""Print boxes, one per row, and their mean average precision."""

from __future__ import annotations

import itertools

from rich.console import Console

from ...inference.boxes import Limits
from ...inference.coco import BoxScore, ClassPrecision
from ..text import count
from .columns import ReportColumn, number_column, worst
from .console import cell, new_table, print_line, print_table
from .report import Report
from .score_table import print_score_lines

SMALL_CONFIDENCE = 0.01  # COCO evaluates nearly all boxes; confidence limits below this value have little effect
SHOWN_CLASSES = 20  # if there are more classes, those with the lowest precision are shown


def print_boxes(console: Console, report: Report) -> None:
    """Print one row for each box, and one row for each picture without boxes."""
    if not report.predictions:
        return
    table = new_table(gap=2)
    table.add_column("input", overflow="fold")
    table.add_column("label", overflow="fold")
    for name in ("confidence", "x1", "y1", "x2", "y2"):
        table.add_column(name, justify="right")
    for answer in report.predictions:
        if not answer.boxes:
            table.add_row(cell(str(answer.input)), cell("no objects", "dim"))
        names = itertools.chain((str(answer.input),), itertools.repeat(""))
        for name_cell, box in zip(names, answer.boxes or ()):
            sides = [f"{side:.1f}" for side in (box.x1, box.y1, box.x2, box.y2)]
            table.add_row(cell(name_cell), cell(box.label, "bold"), f"{box.confidence:.4f}", *sides)
    console.print(table)
    total = sum(len(answer.boxes or ()) for answer in report.predictions)
    print_line(console, f"{count(total, 'box', 'boxes')} in {count(len(report.predictions), 'picture')}")
    console.print()


def score_line(score: BoxScore, limits: Limits | None) -> str:
    """Describe the mean average precision in one line."""
    if score.map is None or score.map_50 is None:
        return f"score: no annotated boxes in {count(score.pictures, 'picture')}"
    text = f"score: mAP@0.5 {score.map_50:.4f}, mAP@0.5:0.95 {score.map:.4f}"
    text += f" ({count(score.boxes, 'box', 'boxes')} in {count(score.pictures, 'picture')})"
    if limits is not None and limits.confidence > SMALL_CONFIDENCE:
        text += f"; counts only boxes above --confidence {limits.confidence:g}, whereas COCO counts all (0.001)"
    return text


def print_box_score(console: Console, report: Report, quiet: bool) -> None:
    """Print the score of boxes, if there is one; with `quiet`, omit the table of classes."""
    score = report.box_score
    if score is None:
        return
    unlabelled = f"{count(score.unlabelled, 'picture')} without annotations" if score.unlabelled else None
    print_score_lines(
        console, report, score_line(score, report.limits), unlabelled, f"mAP@0.5:0.95 {score.map or 0:.4f}"
    )
    if quiet or not score.classes:
        return
    by_precision = sorted(score.classes, key=lambda each: each.ap or 0.0)
    classes, few = worst(by_precision, lambda each: each.ap or 0.0, "AP@0.5:0.95", SHOWN_CLASSES)
    print_table(console, f"average precision by class{few and f', {few}'}", precision_columns(), classes)


def precision_columns() -> list[ReportColumn[ClassPrecision]]:
    """Return the columns of the average precision of classes."""
    return [
        ReportColumn("label", lambda each: each.label),
        number_column("boxes", lambda each: each.boxes, str),
        number_column("AP@0.5", lambda each: each.ap_50, "{:.4f}".format),
        number_column("AP@0.5:0.95", lambda each: each.ap, "{:.4f}".format),
    ]
