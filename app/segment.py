"""`trninfer segment`: predict the class of each pixel of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .errors import UsageError
from .option_groups import takes_options
from .options import FORMAT_HELP, ModelOption, fail_under_option
from .picture_paths import PicturePaths
from .picture_task import Sizes, TaskOptions, answer_pictures

if TYPE_CHECKING:
    from ..models.files import Model
    from .answering import Task

HELP = """Find the class of each pixel in pictures: the area of each class, and maps.

For segmentation networks, such as torchvision's fcn, deeplab and lraspp, or SegFormer: specify an ONNX file, or a model
file written by trninfer import (with --output-kind map if its output is not recognised). The class of each pixel is
computed on the chip; the map is then resized to the size of the picture with nearest-neighbour interpolation.

Pictures are specified as for trninfer classify: files, folders, globs, - for a picture on standard input, and .npy and
.npz files in the layout of the network's input. If a picture cannot be read, its name and the reason are printed to
standard error, the remaining pictures are still processed, and the exit status is 2 (unless --max-errors permits that
many failures).

--save DIR writes two files for each picture. NAME.png is a palette PNG whose pixel values are class numbers (16-bit
grey if there are more than 255 classes); the value 255 (65,535) marks pixels outside the network's crop.
NAME-overlay.png (.jpg for a JPEG) is the picture with its classes in colour.

With --labels FOLDER, the maps are scored: intersection over union of each class, and its mean. For a picture STEM.jpg,
FOLDER contains STEM.png, a palette or grey PNG whose pixel values are the correct classes; pixels with the value 255
(65,535 in 16 bits) are not scored.

\b
Formats:
  table   for people: one row per class of each picture, then layers
  csv     input,label,class_index,pixels,share,error: one line per class of each
          picture, then one per input that could not be used
  ndjson  one object per line, by "type": prediction (with its areas), layer, error,
          and a summary at the end
  json    one document; its schema is app/reports/report.schema.json in the package

--output, --resume, --cores, --cluster and other options work as in trninfer classify; a finished ndjson file can be
extended.

\b
Examples:
  trninfer segment street.jpg --model lraspp.onnx --save maps/
  trninfer segment photos/ --recursive --model fcn.safetensors --format csv --output areas.csv
  trninfer segment val/ --model deeplab.safetensors --labels masks/ --fail-under 0.6
  cat photo.jpg | trninfer segment - --model lraspp.onnx --format json
"""


@dataclass(frozen=True)
class SegmentOptions(TaskOptions):
    """Options of `segment` except those that specify its pictures."""

    form: Annotated[Literal["table", "json", "csv", "ndjson"], typer.Option("--format", help=FORMAT_HELP)] = "table"
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write the map of each picture, and an overlay, to this folder."),
    ] = None
    fail_under: Annotated[float | None, fail_under_option("mean IoU")] = None


LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FOLDER",
        help="Folder with the correct maps, for scoring the answers: palette or grey PNGs, with STEM.png for a "
        "picture STEM.jpg.",
    ),
]


@takes_options(HELP)
def segment(
    pictures: PicturePaths, model: ModelOption, labels: LabelsOption = None, *, options: SegmentOptions
) -> None:
    """Predict the class of each pixel in the specified pictures."""
    if options.fail_under is not None and labels is None:
        raise UsageError("--fail-under checks the mean IoU, so it requires --labels")

    def make_task(loaded: Model, names: list[str], sizes: Sizes) -> Task:
        return _task(loaded, labels, names, options, sizes)

    raise typer.Exit(answer_pictures("map", pictures, model, options, (), make_task))


def _task(
    model: Model,
    labels: str | None,
    names: list[str],
    options: SegmentOptions,
    sizes: Sizes,
) -> Task:
    """Return the task, which makes class maps, saves files, and computes the score."""
    from ..inference.map_scoring import MapLabels, MapScorer
    from ..inference.predictions import Prediction
    from ..inference.segmenting import Segmenter
    from .answering import Task
    from .drawn_pictures import SavedMaps
    from .reports.report import Report

    right = None if labels is None else MapLabels(labels, len(model.network.labels))
    if right is not None:
        right.check_some(names)
    scorer = None if labels is None else MapScorer(model.network.labels)
    saved = None if options.save is None else SavedMaps(options.save, names, model.network.labels)
    segmenter = Segmenter(sizes, right, None if saved is None else saved.save)

    def watch(answer: Prediction) -> None:
        if scorer is not None:
            scorer.add(answer.map)

    def complete(report: Report) -> None:
        report.map_score = None if scorer is None else scorer.score
        report.map_labels = model.network.labels
        report.errors = report.errors + segmenter.problems
        if saved is not None:
            report.errors = report.errors + saved.problems
            saved.report(options.quiet)

    return Task(segmenter, {"labels": labels}, watch, complete)
