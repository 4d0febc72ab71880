"""`trninfer detect`: detect objects in pictures."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .errors import UsageError
from .option_groups import fraction, takes_options, whole
from .options import FORMAT_HELP, ModelOption, fail_under_option
from .picture_paths import PicturePaths
from .picture_task import Sizes, TaskOptions, answer_pictures

if TYPE_CHECKING:
    from ..inference.boxes import Limits
    from ..inference.coco import Annotations
    from ..models.files import Model
    from .answering import Task

HELP = """Find objects in pictures: a label, a confidence and a box for each.

The default model, digits-detect, finds all digits in a picture. For other detection networks, such as YOLO, specify an
ONNX file exported by Ultralytics, or a model file written by trninfer import (with --boxes for other detectors). Boxes
are x1 y1 x2 y2 in pixels of the picture. Segmentation networks add the mask of each object, pose networks its
keypoints, and networks for oriented boxes its corners (outline); x1 y1 x2 y2 is then the rectangle that encloses them.

Pictures are specified as for trninfer classify: files, folders, globs, - for a picture on standard input, and .npy and
.npz files in the layout of the network's input (boxes are then in pixels of that input). If a picture cannot be read,
its name and the reason are printed to standard error, the remaining pictures are still processed, and the exit status
is 2 (unless --max-errors permits that many failures).

--save DIR writes each picture with its boxes, masks and keypoints drawn.

With --labels, the boxes are scored: mean average precision at an overlap of 0.5, and from 0.5 to 0.95, as defined by
COCO (computed by its package pycocotools). SOURCE is a .json file of annotations in COCO's format, or a folder with one
.txt file in YOLO's format per picture. COCO's figures include boxes of any confidence; use --confidence 0.001 to
compare with them.

\b
Formats:
  table   for people: one row per box, then layers
  csv     input,label,class_index,confidence,x1,y1,x2,y2,error: one line per box,
          then one per input that could not be used
  ndjson  one object per line, by "type": prediction (with its boxes), layer, error,
          and a summary at the end
  json    one document; its schema is app/reports/report.schema.json in the package
  coco    COCO's results: a list of image_id, category_id, bbox (x, y, width,
          height), score; segmentation and keypoints. Ids are those of --labels,
          else COCO's own for its 80 classes, or 1, 2, ...; a picture's id is the number in its name, else its file name

Masks are run lengths in COCO's format: "size" is the height and width, and "counts" are the lengths of alternating runs
of pixels outside and inside, column by column. --output, --resume, --cores, --cluster and other options work as in
trninfer classify; a finished ndjson file can be extended.

\b
Examples:
  trninfer detect samples/several-digits/ --save drawn/
  trninfer detect street.jpg --model yolov8n.onnx --save drawn/
  trninfer detect photos/ --recursive --model yolo.safetensors --format csv --output boxes.csv
  trninfer detect val2017/ --model yolov8n.onnx --labels instances_val2017.json --confidence 0.001
  trninfer detect photos/ --model yolo.safetensors --format coco --output results.json
  cat photo.jpg | trninfer detect - --model yolov8n.onnx --format json
"""


@dataclass(frozen=True)
class DetectOptions(TaskOptions):
    """Options of `detect` except those that specify its pictures."""

    form: Annotated[
        Literal["table", "json", "csv", "ndjson", "coco"],
        typer.Option("--format", help=FORMAT_HELP),
    ] = "table"  # type: ignore[assignment]  # coco instead of parquet
    confidence: Annotated[
        float,
        typer.Option("--confidence", parser=fraction, metavar="SHARE", help="Confidence that a box must exceed."),
    ] = 0.25
    iou: Annotated[
        float,
        typer.Option(
            "--iou",
            parser=fraction,
            metavar="SHARE",
            help="Intersection over union above which two boxes of the same class are considered the same object; "
            "only the more confident one is kept.",
        ),
    ] = 0.7
    max_detections: Annotated[
        int,
        typer.Option(
            "--max-detections",
            parser=whole(1, 30_000),
            metavar="N",
            help="Maximum number of boxes per picture; the most confident ones are kept.",
        ),
    ] = 300
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write each picture, with its boxes drawn, to this folder."),
    ] = None
    fail_under: Annotated[float | None, fail_under_option("mAP@0.5:0.95")] = None

    @property
    def limits(self) -> Limits:
        """Return the limits that select the boxes to report."""
        from ..inference.boxes import Limits

        return Limits(self.confidence, self.iou, self.max_detections)


LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="SOURCE",
        help=(
            "Correct boxes, for scoring the answers: a .json file in COCO's format, or a folder of .txt files in "
            "YOLO's format."
        ),
    ),
]


@takes_options(HELP)
def detect(
    pictures: PicturePaths,
    model: ModelOption = "digits-detect",
    labels: LabelsOption = None,
    *,
    options: DetectOptions,
) -> None:
    """Detect objects in the specified pictures."""
    if options.fail_under is not None and labels is None:
        raise UsageError("--fail-under checks the mAP, so it requires --labels")

    def make_task(loaded: Model, names: list[str], sizes: Sizes) -> Task:
        return _task(loaded, labels, names, options, sizes)

    raise typer.Exit(answer_pictures("boxes", pictures, model, options, (labels,), make_task))


def _task(
    model: Model,
    labels: Path | None,
    names: list[str],
    options: DetectOptions,
    sizes: Sizes,
) -> Task:
    """Return the task, which makes boxes, draws pictures, and computes the score."""
    from ..inference.coco import BoxScorer
    from ..inference.detections import Detector
    from ..inference.predictions import Prediction
    from .answering import Task
    from .drawn_pictures import DrawnPictures
    from .reports.report import Report

    limits = options.limits
    annotations = _annotations(model, labels)
    scorer = None if labels is None else BoxScorer(annotations)
    drawings = None if options.save is None else DrawnPictures(options.save, names)

    def watch(answer: Prediction) -> None:
        if scorer is not None:
            scorer.add(answer)
        if drawings is not None:
            drawings.add(answer)

    def complete(report: Report) -> None:
        report.coco = annotations
        report.box_score = None if scorer is None else scorer.score
        report.limits = limits
        if drawings is not None:
            report.errors = report.errors + drawings.problems
            drawings.report(options.quiet)

    return Task(Detector(limits, sizes), dataclasses.asdict(limits), watch, complete)


def _annotations(model: Model, labels: Path | None) -> Annotations:
    """Read the correct boxes from --labels; return them with the ids of classes and pictures."""
    from ..inference.coco import number_categories, read_annotations
    from ..models.errors import InputError

    if labels is None:
        return number_categories(model.network.labels)
    try:
        return read_annotations(labels, model.network.labels)
    except InputError as error:
        raise UsageError(f"--labels {error}") from None
