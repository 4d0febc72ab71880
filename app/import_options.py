"""Options of `trninfer import`, and their conversion to arguments of the importer."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .errors import UsageError
from .option_groups import whole
from .text import parse_number

if TYPE_CHECKING:
    from ..models.importing import ImportOptions, PreprocessingOptions

MAX_LABEL_BYTES = 4 << 20
IMAGENET = "imagenet"
NONE = "none"


@dataclass(frozen=True)
class InputOptions:
    """Options for the conversion of pictures to the network's input. An option is None if it is not given."""

    pictures: Annotated[
        Literal["digit", "photo"] | None,
        typer.Option(
            "--pictures",
            help="Kind of pictures: photos, or pictures of one digit, which is located and cropped. [default: photo]",
        ),
    ] = None
    invert: Annotated[bool, typer.Option("--invert", help="Invert brightness, so that dark ink has high values.")] = (
        False
    )
    input_range: Annotated[
        str | None,
        typer.Option(
            "--input-range", metavar="LO,HI", help="Input values that represent black and white. [default: 0,1]"
        ),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean",
            metavar="M[,M,M]",
            help="Mean of each channel, which is subtracted after scaling to "
            "--input-range. [default: ImageNet's for colour]",
        ),
    ] = None
    std: Annotated[
        str | None,
        typer.Option(
            "--std",
            metavar="S[,S,S]",
            help="Standard deviation of each channel, by which the difference is divided. [default: ImageNet's for "
            "colour]",
        ),
    ] = None
    channel_order: Annotated[
        Literal["rgb", "bgr"] | None,
        typer.Option("--channel-order", help="Order of the colour channels. [default: rgb]"),
    ] = None
    resize: Annotated[
        int | None,
        typer.Option(
            "--resize",
            metavar="N",
            parser=whole(1),
            help="Shorter side of a picture before the centre crop. [default: the input size of the network if "
            "it is below 96 pixels, else 8/7 of it]",
        ),
    ] = None
    resize_mode: Annotated[
        Literal["crop", "squash", "pad"] | None,
        typer.Option(
            "--resize-mode",
            help="Crop the centre of a picture, stretch the whole picture to the input size, or pad it. [default: "
            "crop]",
        ),
    ] = None
    filter: Annotated[
        Literal["nearest", "bilinear", "bicubic", "lanczos", "linear"] | None,
        typer.Option(
            "--filter",
            help="Filter for resizing pictures; linear is OpenCV's filter without antialiasing. [default: bilinear]",
        ),
    ] = None
    pad_colour: Annotated[
        int | None,
        typer.Option(
            "--pad-colour",
            parser=whole(0, 255),
            metavar="N",
            help="With --resize-mode pad: grey value of the padding. [default: 0, black]",
        ),
    ] = None
    input_size: Annotated[
        str | None,
        typer.Option(
            "--input-size", metavar="HxW", help="Height and width of the input, if the file does not fix them."
        ),
    ] = None

    def read(self) -> PreprocessingOptions:
        """Convert the options to the importer's arguments. Raises UsageError for malformed text."""
        from ..models.importing import PreprocessingOptions

        span = _numbers("--input-range", self.input_range)
        if span is not None and len(span) != 2:
            raise UsageError(f"--input-range {self.input_range}: expected two numbers, such as 0,255")
        return PreprocessingOptions(
            input_range=(span[0], span[1]) if span else None,
            mean=_numbers("--mean", self.mean),
            std=_numbers("--std", self.std),
            resize=self.resize,
            pictures=self.pictures,
            invert=self.invert,
            channel_order=self.channel_order,
            size=_size(self.input_size),
            resize_mode=self.resize_mode,
            filter=self.filter,
            pad_colour=self.pad_colour,
        )


@dataclass(frozen=True)
class NetworkOptions:
    """Options for properties of the network that are not specified in its file."""

    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="File with the names of the classes: one per line, JSON, or a table (.csv); - for standard input, or "
            "imagenet for the 1,000 classes of ImageNet. [default: names in or beside the file, else numbers]",
        ),
    ] = None
    output_name: Annotated[
        list[str] | None,
        typer.Option(
            "--output-name",
            metavar="NAME",
            help=(
                "Name of an output to keep. May be repeated. Nodes that are not needed for the selected outputs are "
                "removed. [default: all outputs]"
            ),
        ),
    ] = None
    output_kind: Annotated[
        Literal["classes", "sigmoid", "values", "map"] | None,
        typer.Option("--output-kind", help="How to interpret the output. [default: derived from the last layer]"),
    ] = None
    boxes: Annotated[
        str | None,
        typer.Option(
            "--boxes",
            metavar="SPEC",
            help="Format of a detector's boxes: yolov5, yolov8, yolo26, yolox, detr, rtdetr, ssd, ssd300, "
            "ssdlite320, retinanet or retinaface, optionally followed by fields that differ, as in "
            "yolov5,classes=3,scores=logits. [default: from the file's metadata, else from shapes]",
        ),
    ] = None
    activation: Annotated[
        str | None,
        typer.Option(
            "--activation", metavar="NAME", help="Activation between the layers of a perceptron, for state dicts."
        ),
    ] = None
    layers: Annotated[
        str | None,
        typer.Option(
            "--layers",
            metavar="STEPS",
            help='Sequence of layers, for state dicts: "conv1, relu, maxpool:2, flatten, fc1".',
        ),
    ] = None
    preprocessor: Annotated[
        Path | None,
        typer.Option(
            "--preprocessor",
            metavar="FILE",
            help="Hugging Face's preprocessor_config.json or config.json, or a folder that contains them, with the "
            "preprocessing of pictures and the names of classes. none ignores both files. [default: files beside "
            "MODEL]",
        ),
    ] = None
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Import even if ONNX Runtime or the simulator cannot run the network.")
    ] = False

    def read(self) -> ImportOptions:
        """Return the options in the form that the importer requires."""
        from ..models.errors import ModelError
        from ..models.importing import ImportOptions, parse_boxes

        if self.boxes is not None and self.output_kind is not None:
            raise UsageError("--boxes and --output-kind cannot be used together")
        try:
            boxes = None if self.boxes is None else parse_boxes(self.boxes)
        except ModelError as error:
            raise UsageError(f"--boxes: {str(error).removeprefix('boxes: ')}") from None
        is_none = self.preprocessor is not None and str(self.preprocessor) == NONE and not self.preprocessor.exists()
        return ImportOptions(
            output_names=tuple(self.output_name or ()),
            output_kind=self.output_kind,
            boxes=boxes,
            activation=self.activation,
            layers=self.layers,
            unchecked=self.unchecked,
            preprocessor=None if is_none else self.preprocessor,
            ignores_beside=is_none,
        )

    def read_labels(self) -> tuple[str, ...] | None:
        """Return the names of the classes, or None if none are given."""
        if self.labels is None:
            return None
        if self.labels == IMAGENET and not Path(IMAGENET).exists():
            from ..models.importing.labels import imagenet_labels

            return imagenet_labels()
        return _read_labels(Path(self.labels))


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Parse comma-separated finite numbers."""
    if text is None:
        return None
    try:
        values = tuple(parse_number(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: expected numbers separated by commas") from None
    if not all(math.isfinite(value) for value in values):
        raise UsageError(f"{option} {text}: expected finite numbers")
    return values


def _size(text: str | None) -> tuple[int, int] | None:
    """Parse HxW."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text, re.ASCII)
    if not match or not int(match[1]) or not int(match[2]):
        raise UsageError(f"--input-size {text}: expected height and width, such as 224x224")
    return int(match[1]), int(match[2])


def _read_labels(path: Path) -> tuple[str, ...]:
    """Read the labels from a file or a pipe."""
    from ..models.errors import ModelError
    from ..models.importing.labels import parse_labels
    from ..models.regular_files import describe, open_file_or_pipe

    try:
        is_stdin = str(path) == "-" and not os.path.exists("/dev/stdin")  # the flag does not exist on Windows
        with open(0, "rb", closefd=False) if is_stdin else open_file_or_pipe(_input_name(path)) as file:
            raw = file.read(MAX_LABEL_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--labels {path}: {describe(error)}") from None
    if len(raw) > MAX_LABEL_BYTES:
        raise UsageError(
            f"--labels {path}: the file is larger than {MAX_LABEL_BYTES >> 20} MiB; expected one line for each class"
        )
    try:
        return parse_labels(raw, path.suffix.lower())
    except ModelError as error:
        raise UsageError(f"--labels {path}: {error}") from None


def _input_name(path: Path) -> str | Path:
    return "/dev/stdin" if str(path) == "-" else path
