"""Recognise boxes among the outputs of a graph: as specified by the user or the exporter, otherwise by shape."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..boxes import ENDED, BoxHead
from ..errors import ModelError
from ..outputs import Output
from .box_spec import BOX_KINDS, BoxSpec
from .builder import BuiltOutput

LEAST_BOXES = 100  # fewest rows for which a table with separate scores is read as boxes
LEAST_ROWS = 16  # fewest rows of a table that may contain boxes
MAX_CHOSEN = 1000  # maximum number of boxes that an end-to-end network may select
GRIDS = ((8, 16, 32), (8, 16, 32, 64))  # strides of the YOLO grids, in pixels
BOXES_PER_CELL = (1, 3)  # of YOLO networks without and with priors
_YOLO_APART = BoxSpec({**BOX_KINDS["ssd"].fields, "unit": "pixels", "background": False}, name="yolo")
_OFFSETS, _LOGITS = "bbox_regression", "cls_logits"  # names of the outputs of torchvision's heads
_BOXES = ("box", "loc", "reg")  # parts of the names of outputs that contain boxes


@dataclass(frozen=True)
class FoundBoxes:
    """The outputs of a detector (the table of boxes first), the kind of detector, and a note on any guesses."""

    outputs: list[BuiltOutput]
    spec: BoxSpec
    note: str = ""

    def notes(self, labels: tuple[str, ...] | None) -> list[str]:
        """Return notes about the guesses made for a detector with these labels."""
        head = self.outputs[0].output.boxes
        notes = [self.note] if self.note else []
        if head is not None and head.ended and labels is None and "classes" not in self.spec.fields:
            notes.append(
                f"the classes are assumed to be {head.classes} (--labels, or --boxes {self.spec.name},classes=N)"
            )
        return notes


def find_head(
    outputs: Sequence[BuiltOutput], size: tuple[int, int], spec: BoxSpec | None, labels: int | None
) -> FoundBoxes | None:
    """Return the outputs of a detector, interpreted according to `spec` or, if it is None, according to their shapes.

    `size` is the height and width of the image, and `labels` is the number of labels if known. Returns None if the
    outputs do not look like boxes. Raises ModelError if they do not match a given `spec`.
    """
    if spec is not None:
        return _as_boxes(outputs, spec, size, labels)
    for guess in (_grids, _with_parts, _queries, _heads, _apart, _chosen):
        found = guess(outputs, size, labels)
        if found is not None:
            kind = found.kind
            whole = dataclasses.replace(kind, fields={**kind.fields, **found.fields})
            try:
                built = _as_boxes(found.outputs or outputs, whole, size, labels)
            except ModelError:
                continue
            shape = list(built.outputs[0].shape)
            note = (
                f"the output {shape} is read as boxes of {kind.name} (change with --boxes; use --output-kind values "
                f"for the raw numbers)"
            )
            return dataclasses.replace(built, note=note)
    return None


def note_on_tables(outputs: Sequence[BuiltOutput]) -> str:
    """Return a note if one output has four numbers per row and another output has as many rows, otherwise ""."""
    tables = [built for built in outputs if len(built.shape) == 2]
    for boxes, axis in itertools.product(tables, (0, 1)):
        count = boxes.shape[1 - axis]
        same = [built for built in tables if built is not boxes and built.shape[1 - axis] == count]
        if boxes.shape[axis] == 4 and count >= LEAST_ROWS and same:
            shapes = " and ".join(f"{built.name} {list(built.shape)}" for built in (boxes, same[0]))
            return f"{shapes} may be boxes and their scores; to detect objects, import the network with --boxes SPEC"
    return ""


def note_on_values(table: BuiltOutput, spec: BoxSpec) -> str:
    """Return a note about a table whose shape, but not its values, is that of boxes."""
    return (
        f"the output {list(table.shape)} has the shape of boxes of {spec.name}, but not their values; if it contains "
        f"boxes, import the network with --boxes SPEC"
    )


def _as_boxes(outputs: Sequence[BuiltOutput], spec: BoxSpec, size: tuple[int, int], labels: int | None) -> FoundBoxes:
    """Return the outputs together with the head derived from a specification and their shapes."""
    fields = dict(spec.fields)
    if fields.get("layout") == "rows":
        fields = {**dict(_parts_apart(outputs, fields, size)), **fields}
    rows = _table_of_boxes(outputs, fields)
    maps = [built for built in outputs if len(built.shape) == 3]
    masks = fields.get("masks", maps[0].shape[0] if maps and "prototypes" not in fields else 0)
    if maps and masks:
        fields |= {"masks": masks, "prototypes": fields.get("prototypes") or maps[0].name}
    try:
        head = BoxHead(**{"classes": _classes(rows, outputs, fields, labels), **fields})
        other_layout = dataclasses.replace(head, layout="columns" if head.layout == "rows" else "rows")
        head = other_layout if head.fits(rows.shape[::-1]) and not head.fits(rows.shape) else head
        head.check_shape(rows.shape)
    except TypeError as error:  # a field that the specification allows has an unsuitable type
        raise ModelError(f"boxes: {error}") from None
    leading = dataclasses.replace(rows, output=Output("boxes", boxes=head))
    rest = [dataclasses.replace(built, output=Output("values")) for built in outputs if built is not rows]
    return FoundBoxes([leading, *rest], spec)


def _table_of_boxes(outputs: Sequence[BuiltOutput], fields: Mapping[str, Any]) -> BuiltOutput:
    """Return the output that contains the boxes: the first table whose name indicates boxes, or else the first
    table."""
    others = {fields.get("scores_from"), fields.get("keypoints_from")}
    tables = [built for built in outputs if len(built.shape) == 2 and built.name not in others]
    if not tables:
        shapes = ", ".join(f"{built.name} {list(built.shape)}" for built in outputs[:8])
        raise ModelError(f"no output can be read as boxes; the outputs are {shapes}")
    named = [built for built in tables if any(word in built.name.lower() for word in _BOXES)]
    return (named or tables)[0]


def _classes(rows: BuiltOutput, outputs: Sequence[BuiltOutput], fields: dict[str, Any], labels: int | None) -> int:
    """Return the number of classes: the number of columns left after all other fields."""
    if fields.get("ended"):
        return labels or 80  # 80 as in COCO; a row contains only the index of its class
    background = int(fields.get("background", False))
    scores_from = fields.get("scores_from")
    if scores_from:
        shape = next((built.shape for built in outputs if built.name == scores_from), (0, 0))
        return shape[-1] - background
    width = rows.shape[1 if fields.get("layout") == "rows" else 0]
    extra = 0 if fields.get("keypoints_from") else fields.get("keypoints", 0) * fields.get("keypoint_size", 0)
    extra += fields.get("angle", False)
    return width - 4 - int(fields.get("objectness", False)) - background - fields.get("masks", 0) - extra


def _parts_apart(
    outputs: Sequence[BuiltOutput], fields: dict[str, Any], size: tuple[int, int]
) -> list[tuple[str, str]]:
    """Return the fields that name the outputs with scores and keypoints, if the rows contain only four coordinates."""
    tables = [built for built in outputs if len(built.shape) == 2]
    boxes = [built for built in tables if built.shape[1] == 4]
    if not boxes or len(tables) < 2:
        return []
    count = boxes[0].shape[0]
    rest = [built for built in tables if built is not boxes[0] and built.shape[0] == count]
    numbers = fields.get("keypoints", 0) * fields.get("keypoint_size", 0)
    points = [built for built in rest if numbers and built.shape[1] == numbers]
    scores = [built for built in rest if built not in points]
    found = [("scores_from", scores[0].name)] if scores else []
    return found + ([("keypoints_from", points[0].name)] if points else [])


@dataclass(frozen=True)
class Guess:
    """A kind of detector, further fields of its head, and the outputs that are used, or None for all outputs."""

    kind: BoxSpec
    fields: dict[str, Any] = field(default_factory=dict)
    outputs: list[BuiltOutput] | None = None


def _cells(size: tuple[int, int], strides: Sequence[int]) -> int:
    """Return the number of cells of a grid."""
    return sum(math.ceil(size[0] / stride) * math.ceil(size[1] / stride) for stride in strides)


def _grids(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise a YOLO network with one row per grid cell (v8 and X) or three, one per prior (v5)."""
    tables = [built.shape for built in outputs if len(built.shape) == 2]
    if len(tables) != 1 or min(size) < GRIDS[0][-1]:
        return None
    rows, columns = tables[0]
    for strides in GRIDS:
        cells = _cells(size, strides)
        guesses: list[tuple[bool, Guess]] = [
            (columns == cells and rows > 4, Guess(BOX_KINDS["yolov8"])),
            (rows == 3 * cells and columns > 5, Guess(BOX_KINDS["yolov5"])),
            (rows == cells and columns > 5 and columns - 4 == labels, Guess(BOX_KINDS["yolov8"], {"layout": "rows"})),
            (rows == cells and columns > 5, Guess(BOX_KINDS["yolox"], {"strides": strides})),
        ]
        for is_true, guess in guesses:
            if is_true:
                return guess
    return None


def _with_parts(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise Ultralytics' networks as torch.onnx exports them: the table of boxes, followed by its components
    (distances and scores of all cells) and the feature maps. The number of scores shows what else the table contains.
    """
    cells = _cells(size, GRIDS[0])
    table, *rest = outputs
    parts = [built.shape[0] for built in rest if len(built.shape) == 2 and built.shape[1] == cells]
    if len(table.shape) != 2 or table.shape[1] != cells or len(parts) < 2 or parts[0] % 4:
        return None
    classes = parts[1]
    more = table.shape[0] - 4 - classes
    quarter = (more, size[0] // 4, size[1] // 4)
    masks = next((built.name for built in rest if built.shape == quarter), "")
    fields: dict[str, Any] = {"classes": classes, "masks": more if masks else 0}
    if masks:
        fields["prototypes"] = masks
    elif more == 1:
        fields["angle"] = True
    elif more > 0 and more % 3 == 0:
        fields |= {"keypoints": more // 3, "keypoint_size": 3}
    elif more:
        return None
    return Guess(BOX_KINDS["yolov8"], fields, [table, *(built for built in rest if built.name == masks)])


def _apart(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise SSD by its separate outputs for boxes and scores, or RetinaFace by its number of priors and its
    landmarks."""
    tables = [built for built in outputs if len(built.shape) == 2]
    boxes = [built for built in tables if built.shape[1] == 4]
    if len(boxes) != 1 or len(tables) != len(outputs):
        return None
    same = [built for built in tables if built is not boxes[0] and built.shape[0] == boxes[0].shape[0]]
    retinaface = BOX_KINDS["retinaface"]
    count = BoxHead(**retinaface.fields).box_count(*size)
    if sorted(built.shape[1] for built in same) == [2, 10] and count == boxes[0].shape[0]:
        return Guess(retinaface)
    if len(tables) != 2 or len(same) != 1:
        return None
    per_cell = {number * _cells(size, strides) for strides in GRIDS for number in BOXES_PER_CELL}
    if boxes[0].shape[0] in per_cell and min(size) >= GRIDS[0][-1]:
        return Guess(_YOLO_APART)
    if same[0].shape[1] > 1 and boxes[0].shape[0] >= LEAST_BOXES:
        return Guess(BOX_KINDS["ssd"])
    return None


def _queries(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise Hugging Face's DETR by the names of its outputs. There is a score for "no object" (DETR, YOLOS) unless
    the number of labels shows otherwise (RT-DETR)."""
    shapes = {built.name: built.shape for built in outputs if len(built.shape) == 2}
    boxes, scores = shapes.get("pred_boxes"), shapes.get("logits")
    if boxes is None or scores is None or boxes[1] != 4 or boxes[0] != scores[0]:
        return None
    return Guess(BOX_KINDS["rtdetr" if labels == scores[1] else "detr"])


def _heads(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise the heads of torchvision's SSD and RetinaNet by the names of their outputs and their number of
    priors. Other networks have as many, but different priors."""
    shapes = {built.name: built.shape for built in outputs}
    offsets, logits = shapes.get(_OFFSETS, ()), shapes.get(_LOGITS, ())
    for kind in (BOX_KINDS["ssd300"], BOX_KINDS["ssdlite320"], BOX_KINDS["retinanet"]):
        count = BoxHead(1, **kind.fields).box_count(*size)
        if offsets == (count, 4) and len(logits) == 2 and logits[0] == count and len(outputs) == 2:
            return Guess(kind)
    return None


def _chosen(outputs: Sequence[BuiltOutput], size: tuple[int, int], labels: int | None) -> Guess | None:
    """Recognise an end-to-end YOLO: a few hundred rows of corner coordinates, a score and a class."""
    tables = [built for built in outputs if len(built.shape) == 2]
    if len(tables) == 1 and tables[0].shape[1] == ENDED and 100 <= tables[0].shape[0] <= MAX_CHOSEN:
        return Guess(BOX_KINDS["yolo26"])
    return None
