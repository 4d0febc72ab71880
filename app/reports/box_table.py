"""Print boxes, one per row, and their mean average precision."""

from __future__ import annotations

import itertools

from rich.console import Console
from rich.table import Table

from ...inference.boxes import Limits
from ...inference.coco import BoxScore
from ..text import count
from .console import BOX, cell, new_table, print_line
from .report import Report

SMALL_CONFIDENCE = 0.01  # COCO evaluates nearly all boxes; confidence limits below this value have little effect
SHOWN_CLASSES = 20  # if there are more classes, those with the lowest precision are shown


def print_boxes(console: Console, report: Report) -> None:
    """Print one row for each box, and one row for each picture without boxes."""
    if not report.predictions:
        return
    table = Table(box=BOX, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("input", overflow="fold")
    table.add_column("label", overflow="fold")
    for name in ("confidence", "x1", "y1", "x2", "y2"):
        table.add_column(name, justify="right")
    for answer in report.predictions:
        if not answer.boxes:
            table.add_row(cell(str(answer.input)), cell("no objects", "dim"))
        names = itertools.chain((str(answer.input),), itertools.repeat(""))
        for shown, box in zip(names, answer.boxes or ()):
            sides = [f"{side:.1f}" for side in (box.x1, box.y1, box.x2, box.y2)]
            table.add_row(cell(shown), cell(box.label, "bold"), f"{box.confidence:.4f}", *sides)
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
        text += f"; of boxes above --confidence {limits.confidence:g}, where COCO's figures count all (0.001)"
    return text


def print_box_score(console: Console, report: Report, quiet: bool) -> None:
    """Print the score of boxes, if there is one; with `quiet`, omit the table of classes."""
    score = report.box_score
    if score is None:
        return
    print_line(console, score_line(score, report.limits))
    if score.unlabelled:
        print_line(console, f"{count(score.unlabelled, 'picture')} without annotations: not scored")
    if report.fail_under is not None:
        verdict = "below" if report.is_below else "not below"
        print_line(console, f"mAP@0.5:0.95 {score.map or 0:.4f} is {verdict} --fail-under {report.fail_under:g}")
    if quiet or not score.classes:
        return
    shown = sorted(score.classes, key=lambda each: each.ap or 0.0)[:SHOWN_CLASSES]
    few = f"the {len(shown)} of {len(score.classes)} classes with the lowest" if len(shown) < len(score.classes) else ""
    table = new_table(f"average precision by class {few}".strip())
    table.add_column("label", overflow="fold")
    for name in ("boxes", "AP@0.5", "AP@0.5:0.95"):
        table.add_column(name, justify="right")
    for each in shown:
        values = ("-" if value is None else f"{value:.4f}" for value in (each.ap_50, each.ap))
        table.add_row(cell(each.label), str(each.boxes), *values)
    console.print(table)
