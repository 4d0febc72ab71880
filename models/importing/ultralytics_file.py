"""The metadata that Ultralytics' exporter writes to an ONNX file: task, classes, sizes and keypoints."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .box_spec import BOX_KINDS, LETTERBOX, BoxSpec
from .picture import PreprocessingOptions
from .preprocessor import read_id2label

_AUTHOR = "Ultralytics"
_BOX_TASKS = ("detect", "segment", "pose", "obb")
_DETR = "RTDETRDecoder"
MAX_TEXT = 1 << 20


@dataclass(frozen=True)
class UltralyticsFile:
    """The metadata of a file from Ultralytics; fields that an older exporter did not write are None or empty.

    `size` is the height and width of the input image. `selects_boxes` is True if the graph itself selects boxes, by
    their scores (end-to-end) or overlaps (`nms=True`); `has_all_rows` is True if the output is the table before this
    selection.
    """

    task: str
    names: tuple[str, ...]
    size: tuple[int, int] | None
    keypoint_shape: tuple[int, int] | None
    is_end_to_end: bool
    head: str
    channels: int = 3
    selects_boxes: bool = False
    has_all_rows: bool = False

    @property
    def pictures(self) -> PreprocessingOptions:
        """Return the preprocessing that `predict` of Ultralytics applies to a picture."""
        options = PreprocessingOptions(
            pictures="photo" if self.channels in (1, 3) else None, usual_size=self.size, is_beside=True
        )
        if self.task == "classify":
            square = self.size is not None and self.size[0] == self.size[1]
            return dataclasses.replace(
                options,
                input_range=(0.0, 1.0),
                resize=max(self.size) if self.size is not None else None,
                resize_mode="crop" if square or self.size is None else "squash",
                filter="bilinear",
                channel_order="rgb",
            )
        return options.over(LETTERBOX if self.boxes is None else self.boxes.pictures)

    @property
    def boxes(self) -> BoxSpec | None:
        """Return the specification of the boxes that the network detects, or None for other tasks."""
        if self.task not in _BOX_TASKS:
            return None
        code = "centre" if self.task == "obb" else "corners"
        if self.head == _DETR:
            kind = BOX_KINDS["rtdetr"]
        elif self.is_end_to_end and self.has_all_rows:
            kind = BoxSpec({"layout": "rows", "code": code, "suppress": False})
        elif self.has_all_rows:  # before the suppression of overlaps, which compares corners
            kind = BoxSpec({**BOX_KINDS["yolov8"].fields, "layout": "rows", "code": code})
        else:
            kind = BOX_KINDS["yolo26" if self.selects_boxes else "yolov8"]
        fields: dict[str, Any] = {**kind.fields, "classes": len(self.names)}
        if self.task == "obb":
            fields |= {"code": "centre", "angle": True}
        if self.task == "pose" and self.keypoint_shape is not None:
            fields |= {"keypoints": self.keypoint_shape[0], "keypoint_size": self.keypoint_shape[1]}
        return BoxSpec(fields, kind.pictures, f"Ultralytics {self.task}")


def read_ultralytics(metadata: Mapping[str, str]) -> UltralyticsFile | None:
    """Parse the metadata of an ONNX file; return None if Ultralytics did not write it or it contains no names."""
    if metadata.get("author") != _AUTHOR or "task" not in metadata:
        return None
    fields = {key: _literal(text) for key, text in metadata.items()}
    names = read_id2label({str(key): name for key, name in fields["names"].items()} if _is_dict(fields) else None)
    if names is None:
        return None
    size, points, arguments = fields.get("imgsz"), fields.get("kpt_shape"), fields.get("args")
    is_end_to_end = fields.get("end2end") is True
    has_nms = isinstance(arguments, dict) and arguments.get("nms") is True
    return UltralyticsFile(
        task=metadata["task"],
        names=names,
        size=_pair(size) if not isinstance(size, int) else (size, size),
        keypoint_shape=_pair(points),
        is_end_to_end=is_end_to_end,
        head=metadata.get("head", ""),
        channels=fields["channels"] if type(fields.get("channels")) is int else 3,
        selects_boxes=(is_end_to_end or has_nms) and metadata.get("head") != _DETR,
    )


def _is_dict(found: Mapping[str, Any]) -> bool:
    return isinstance(found.get("names"), dict)


def _literal(text: str) -> Any:
    """Parse a Python literal, which the exporter writes for non-text values; return None if that is not possible."""
    if len(text) > MAX_TEXT:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _pair(value: Any) -> tuple[int, int] | None:
    is_pair = isinstance(value, (list, tuple)) and len(value) == 2
    return (value[0], value[1]) if is_pair and all(type(item) is int and item > 0 for item in value) else None
