"""`--boxes SPEC`: the supported kinds of detectors, keyed by name, and the parser for specifications of boxes."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..boxes import BoxHead
from ..errors import ModelError
from .picture import IMAGENET_MEAN, IMAGENET_STD, PreprocessingOptions

LETTERBOX = PreprocessingOptions(
    input_range=(0.0, 1.0), resize_mode="pad", filter="linear", pad_colour=114, pad_place="centre", channel_order="rgb"
)
_SQUASHED = PreprocessingOptions(input_range=(0.0, 1.0), resize_mode="squash", filter="linear", channel_order="rgb")
_YOLOX = dataclasses.replace(LETTERBOX, input_range=(0.0, 255.0), pad_place="corner", channel_order="bgr")
_RETINAFACE = PreprocessingOptions(
    input_range=(0.0, 255.0),
    mean=(104.0, 117.0, 123.0),
    std=(1.0,),
    resize_mode="squash",
    filter="linear",
    channel_order="bgr",
)
_DETR = dataclasses.replace(_SQUASHED, mean=IMAGENET_MEAN, std=IMAGENET_STD)
_QUERIES = {"layout": "rows", "code": "centre", "unit": "fraction", "suppress": False}
_ULTRAFACE = dataclasses.replace(_SQUASHED, input_range=(0.0, 255.0), mean=(127.0,), std=(128.0,))
_SSD300 = dataclasses.replace(_SQUASHED, mean=(0.48235, 0.45882, 0.40784), std=(1 / 255,))
_SSDLITE = dataclasses.replace(_SQUASHED, mean=(0.5,), std=(0.5,))
_OFFSETS = {"layout": "rows", "code": "priors", "scores": "softmax", "background": True}
_RETINANET = dataclasses.replace(LETTERBOX, mean=IMAGENET_MEAN, std=IMAGENET_STD, pad_colour=116, pad_place="corner")


def _ssd_priors(size: int, scales: Sequence[float], ratios: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the priors of an SSD for images of `size` pixels as fields of `BoxHead`: in each cell, two squares and
    boxes of other aspect ratios."""
    priors: list[float] = []
    for scale, larger, others in zip(scales, scales[1:], ratios):
        sides = [(scale, scale), (math.sqrt(scale * larger),) * 2]
        for ratio in map(math.sqrt, others):
            sides += [(scale * ratio, scale / ratio), (scale / ratio, scale * ratio)]
        priors += [size * min(1.0, side) for pair in sides for side in pair]
    return {"priors": tuple(priors), "prior_counts": tuple(2 + 2 * len(others) for others in ratios)}


def _retinanet_priors() -> dict[str, Any]:
    """Return the priors of torchvision's RetinaNet as fields of `BoxHead`: three aspect ratios of three sizes in each
    cell, with whole numbers of pixels to each side of the centre."""
    priors = []
    for size, ratio, octave in itertools.product((32, 64, 128, 256, 512), (0.5, 1.0, 2.0), (0, 1, 2)):
        side, root = int(size * 2 ** (octave / 3)), math.sqrt(ratio)
        priors += [2.0 * round(side / root / 2), 2.0 * round(side * root / 2)]
    return {"strides": (8, 16, 32, 64, 128), "priors": tuple(priors), "prior_counts": (9,) * 5}


@dataclass(frozen=True)
class BoxSpec:
    """Description of a detector: the fields of `BoxHead` and the usual preprocessing for this kind of detector."""

    fields: Mapping[str, Any]
    pictures: PreprocessingOptions = LETTERBOX
    name: str = ""

    def head(self, **found: Any) -> BoxHead:
        """Return the head, completed with the fields in `found`; raise ModelError if they are not compatible."""
        return BoxHead(**{**found, **self.fields})


BOX_KINDS = {
    "yolov8": BoxSpec({"layout": "columns", "code": "centre"}, name="yolov8"),
    "yolov5": BoxSpec({"layout": "rows", "code": "centre", "objectness": True}, name="yolov5"),
    "yolo26": BoxSpec({"layout": "rows", "code": "corners", "ended": True}, name="yolo26"),
    "yolox": BoxSpec(
        {"layout": "rows", "code": "cells", "objectness": True, "strides": (8, 16, 32)}, _YOLOX, name="yolox"
    ),
    "rtdetr": BoxSpec(_QUERIES, _SQUASHED, "rtdetr"),
    "detr": BoxSpec({**_QUERIES, "scores": "softmax", "background": True, "background_last": True}, _DETR, "detr"),
    "ssd": BoxSpec(
        {"layout": "rows", "code": "corners", "unit": "fraction", "background": True}, _ULTRAFACE, name="ssd"
    ),
    "retinaface": BoxSpec(
        {
            "layout": "rows",
            "code": "priors",
            "background": True,
            "classes": 1,
            "keypoints": 5,
            "keypoint_size": 2,
            "strides": (8, 16, 32),
            "priors": (16.0, 16.0, 32.0, 32.0, 64.0, 64.0, 128.0, 128.0, 256.0, 256.0, 512.0, 512.0),
            "prior_counts": (2, 2, 2),
        },
        _RETINAFACE,
        name="retinaface",
    ),
    "ssd300": BoxSpec(
        {
            **_OFFSETS,
            "strides": (8, 16, 32, 64, 100, 300),
            **_ssd_priors(300, (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05), ((2,), *[(2, 3)] * 3, (2,), (2,))),
        },
        _SSD300,
        name="ssd300",
    ),
    "ssdlite320": BoxSpec(
        {
            **_OFFSETS,
            "strides": (16, 32, 64, 107, 160, 320),
            "prior_cells": "filled",
            **_ssd_priors(320, (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0), [(2, 3)] * 6),
        },
        _SSDLITE,
        name="ssdlite320",
    ),
    "retinanet": BoxSpec(
        {
            "layout": "rows",
            "code": "priors",
            "scores": "logits",
            "prior_cells": "corners",
            "variances": (1.0, 1.0),
            **_retinanet_priors(),
        },
        _RETINANET,
        name="retinanet",
    ),
}


def parse_boxes(text: str) -> BoxSpec:
    """Parse a specification such as "yolov8", "yolov5,classes=3" or "layout=rows,code=corners,classes=2".

    It is based on a kind of detector or on the defaults of `BoxHead`. List elements are separated by "/". Raises a
    ModelError that lists unknown words.
    """
    words = [word.strip() for word in text.split(",")]
    spec = BoxSpec({})
    if "=" not in words[0]:
        if words[0] not in BOX_KINDS:
            raise ModelError(
                f"boxes {words[0]!r}: unknown kind; known: {', '.join(BOX_KINDS)}, or fields such as layout=rows"
            )
        spec = BOX_KINDS[words.pop(0)]
    hints = typing.get_type_hints(BoxHead)
    fields = dict(spec.fields)
    for word in words:
        key, _, value = word.partition("=")
        if key not in hints:
            raise ModelError(f"boxes: unknown field {key!r}; known fields are {', '.join(hints)}")
        fields[key] = _read(key, value, hints[key])
    return dataclasses.replace(spec, fields=fields)


def _read(key: str, text: str, hint: Any) -> Any:
    """Parse the value of a field according to its type."""
    try:
        if hint is bool:
            return {"yes": True, "true": True, "no": False, "false": False}[text.lower()]
        if hint in (int, str):
            return hint(text)
        item = typing.get_args(hint)[0]
        return tuple(item(entry) for entry in text.split("/"))
    except (KeyError, ValueError):
        expected = {bool: "yes or no", int: "a whole number"}.get(hint, "numbers separated by /")
        raise ModelError(f"boxes: {key} is {text!r}; it must be {expected}") from None
