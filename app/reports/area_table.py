"""Print the areas of class maps and the intersection over union of classes; the areas are also available as CSV
records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ...inference.class_maps import ClassArea
from ...inference.map_scoring import ClassIou, MapScore
from ...inference.predictions import Prediction
from ..text import count
from .columns import ReportColumn, number_column, worst
from .console import cell, new_table, print_table
from .report import Report
from .score_table import print_score_lines

AREA_COLUMNS = ("input", "label", "class_index", "pixels", "share", "error")
SHOWN_AREAS = 8  # maximum number of rows per picture; the remaining areas are summed in one row
SHOWN_CLASSES = 20  # if there are more classes, those with the lowest IoU are shown


def area_lines(answer: Prediction, name: str | int) -> list[dict[str, Any]]:
    """Return one record with the columns AREA_COLUMNS for each class in the picture `name`."""
    return [{"input": name, **vars(area)} for area in (answer.map.areas if answer.map is not None else ())]


def print_areas(console: Console, report: Report) -> None:
    """Print one row for each of the classes that cover the largest areas of a picture."""
    if not report.predictions:
        return
    table = new_table(gap=2)
    table.add_column("input", overflow="fold")
    table.add_column("label", overflow="fold")
    for name in ("pixels", "share"):
        table.add_column(name, justify="right")
    for answer in report.predictions:
        _add_areas(table, str(answer.input), answer.map.areas if answer.map is not None else ())
    console.print(table)
    console.print()


def _add_areas(table: Table, name: str, areas: Sequence[ClassArea]) -> None:
    """Add one row for each of the classes that cover the largest areas of a picture, and one row for all other
    classes."""
    for number, area in enumerate(areas[:SHOWN_AREAS]):
        name_cell = cell("" if number else name)
        table.add_row(name_cell, cell(area.label, "bold"), f"{area.pixels:,}", f"{100 * area.share:.1f} %")
    rest = areas[SHOWN_AREAS:]
    if rest:
        pixels, share = sum(area.pixels for area in rest), sum(area.share for area in rest)
        few = count(len(rest), "other class", "other classes")
        table.add_row("", cell(few, "dim"), f"{pixels:,}", f"{100 * share:.1f} %")


def map_score_line(score: MapScore) -> str:
    """Describe the mean intersection over union in one line."""
    if not score.pictures:
        return "score: there is no correct map for any picture"
    return (
        f"score: mean IoU {score.mean_iou:.4f} of {count(len(score.classes), 'class', 'classes')}, "
        f"{100 * score.pixel_accuracy:.2f} % of pixels correct in {count(score.pictures, 'picture')}"
    )


def worst_ious(score: MapScore, most: int) -> tuple[Sequence[ClassIou], str]:
    """Return at most `most` classes (the ones with the lowest IoU if there are more), and a note about the
    selection."""
    return worst(score.classes, lambda each: each.iou, "IoU", most)


def print_map_score(console: Console, report: Report, quiet: bool) -> None:
    """Print the score of class maps, if there is one; with `quiet`, omit the table of classes."""
    score = report.map_score
    if score is None:
        return
    unlabelled = f"{count(score.unlabelled, 'picture')} without a correct map" if score.unlabelled else None
    print_score_lines(console, report, map_score_line(score), unlabelled, f"mean IoU {score.mean_iou:.4f}")
    if quiet or not score.classes:
        return
    rows, few = worst_ious(score, SHOWN_CLASSES)
    print_table(console, f"intersection over union by class{few and f', {few}'}", iou_columns(), rows)


def iou_columns() -> list[ReportColumn[ClassIou]]:
    """Return the columns of the intersection over union of classes."""
    return [
        ReportColumn("label", lambda each: each.label),
        number_column("pixels", lambda each: each.pixels, "{:,}".format),
        number_column("answered", lambda each: each.answered, "{:,}".format),
        number_column("IoU", lambda each: each.iou, "{:.4f}".format),
    ]
