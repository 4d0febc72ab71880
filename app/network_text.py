"""Describe a network in plain text: how pictures are converted to its input, and what its outputs mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.boxes import BoxHead
    from ..models.inputs import ImageInput
    from ..models.outputs import NamedOutput


def first_labels(labels: tuple[str, ...]) -> str:
    """Return the first few labels as text."""
    return ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")


def describe_answers(named: NamedOutput, labelled: bool) -> str:
    """Describe the meaning of an output."""
    count = named.size
    if named.output.boxes is not None:
        return describe_boxes(named.output.boxes, labelled)
    if named.output.kind == "map":
        names = "" if labelled else ", numbered (--labels names them)"
        classes = f"{len(named.labels)} class{'es' if len(named.labels) > 1 else ''}{names}"
        return f"a map of {named.shape[0]}x{named.shape[1]} pixels of {classes}; trninfer segment draws it"
    if named.output.kind == "values":
        sides = f" of {'x'.join(map(str, named.shape))}" if len(named.shape) > 1 else ""
        return f"{count} value{'s' if count > 1 else ''}{sides}, printed as they are"
    kinds = {
        "": "independent probabilities (sigmoid)",
        "raw": "raw scores",
        "softmax": "probabilities",
        "log_softmax": "logarithms of probabilities",
    }
    names = "" if labelled or not named.labels else ", numbered (--labels names them)"
    return f"{count} class{'es' if count > 1 else ''}, as {kinds[named.output.scores]}{names}"


def describe_boxes(head: BoxHead, labelled: bool) -> str:
    """Describe the boxes of a detector."""
    classes = f"{head.classes} class{'es' if head.classes > 1 else ''}"
    any_class = "of any class " if head.agnostic else ""
    extras = [
        *(["oriented"] if head.angle else []),
        *(["masks"] if head.masks else []),
        *([f"{head.keypoints} keypoints"] if head.keypoints else []),
        "end to end" if head.ended or not head.suppress else f"overlapping ones {any_class}suppressed",
    ]
    names = "" if labelled else ", numbered (--labels names them)"
    return f"boxes of {classes}, {', '.join(extras)}{names}; trninfer detect finds them"


def describe_preprocessing(source: ImageInput) -> str:
    """Describe the conversion of a picture to the input."""
    if source.preprocess == "none":
        return "none: it reads only arrays (.npy, .npz)"
    mean, std = (" ".join(f"{value:.4g}" for value in values) for values in (source.mean, source.std))
    order = "red, green, blue" if source.channel_order == "rgb" else "blue, green, red"
    colours = order if source.channels == 3 else "grey"
    if source.preprocess == "digit":
        size = f"{source.height}x{source.width}"
        return f"the digit is located and centred in {size} (ink is 1), minus {mean}, divided by {std}"
    image = f"{source.height}x{source.width}"
    pad = {0: "black", 255: "white"}.get(source.pad_colour, f"grey {source.pad_colour}")
    ways = {
        "crop": f"shorter side to {source.resize}, center crop to {image}",
        "squash": f"stretched to {source.resize}, center crop to {image}",
        "pad": f"fitted into {image}, padded with {pad}",
    }
    by = "" if source.filter == "bilinear" else f" ({source.filter})"
    return f"{ways[source.resize_mode]}{by}, {colours} scaled to 0..1, minus {mean}, divided by {std}"
