"""Preprocessing and classes from files next to a network: Hugging Face's preprocessor_config.json and config.json.

timm stores the same information in the `pretrained_cfg` entry of config.json. Only settings that affect pixels are
read; an unknown step is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..regular_files import describe, open_regular
from .picture import PreprocessingOptions

PREPROCESSOR = "preprocessor_config.json"
CONFIG = "config.json"
MAX_BYTES = 16 << 20
CONVNEXT_SQUASHES = 384  # at this side length and above, the processor with crop_pct squashes pictures without cropping

# Pillow's filter numbers, which Hugging Face stores, and timm's names of resize modes.
_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_MODES = {"center": "crop", "squash": "squash", "border": "pad"}

# Steps that are handled below or that have no effect for supported networks.
_STEPS = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb", "do_flip_channel_order"}


@dataclass(frozen=True)
class Beside:
    """The contents of files next to a network: preprocessing options, labels, and the names of the files."""

    pictures: PreprocessingOptions
    labels: tuple[str, ...] | None
    files: tuple[str, ...]


def read_beside(model: Path, named: Path | None = None) -> Beside:
    """Read the files next to `model`, or the file or folder `named`; raise ModelError if they cannot be read.

    Hugging Face's exporters write ONNX files to a subfolder `onnx` of the folder with the configuration files.
    """
    if named is not None and not named.is_dir():
        return _read({PREPROCESSOR: named} if not _is_config(named) else {CONFIG: named})
    folders = [named] if named is not None else [model.parent]
    if named is None and model.resolve().parent.name == "onnx":
        folders.append(model.resolve().parent.parent)
    for folder in folders:
        files = {name: folder / name for name in (PREPROCESSOR, CONFIG) if (folder / name).is_file()}
        if files:
            return _read(files)
    if named is not None:
        raise ModelError(f"{named}: the folder contains neither {PREPROCESSOR} nor {CONFIG}")
    return Beside(PreprocessingOptions(), None, ())


def _is_config(path: Path) -> bool:
    return any(key in _load(path) for key in ("id2label", "pretrained_cfg", "architectures"))


def _read(files: Mapping[str, Path]) -> Beside:
    pictures, labels, used_names = PreprocessingOptions(), None, []
    for name, path in files.items():
        data = _load(path)
        try:
            options = _preprocessor(data) if name == PREPROCESSOR else _timm(data.get("pretrained_cfg", {}))
            if name == CONFIG:
                labels = read_id2label(data.get("id2label")) or _timm_labels(data)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError):
            raise ModelError(f"{path}: unknown kind of configuration") from None
        if options.is_given or (name == CONFIG and labels):
            used_names.append(str(path))
        pictures = pictures.over(options)
    return Beside(pictures, labels, tuple(used_names))


def _load(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {describe(error)}") from None
    try:
        data = json.loads(text) if len(text) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ModelError(f"{path}: not a JSON object, or larger than {MAX_BYTES >> 20} MiB")
    return data


def _preprocessor(data: dict[str, Any]) -> PreprocessingOptions:
    """Return the options specified by a preprocessor_config.json."""
    unknown = sorted(key for key, value in data.items() if key.startswith("do_") and value and key not in _STEPS)
    if unknown:
        raise ModelError(f"the step {unknown[0]!r} is unknown; use --mean, --std, --resize and similar options instead")
    size, crop = _sides(data.get("size")), _sides(data.get("crop_size"))
    image = crop if data.get("do_center_crop", True) and crop is not None else size
    normalizes = bool(data.get("do_normalize", "image_mean" in data))
    options = PreprocessingOptions(
        input_range=_range(data),
        mean=_numbers(data["image_mean"]) if normalizes else (0.0,),
        std=_numbers(data["image_std"]) if normalizes else (1.0,),
        channel_order="bgr" if data.get("do_flip_channel_order") else "rgb",
        usual_size=None if image is None else (image[0] or image[1], image[1] or image[0]),
    )
    if size is None or not data.get("do_resize", True):
        return options
    resize, mode = _resize(size, image, data.get("crop_pct"))
    number = data.get("resample", 2)
    if number not in _FILTERS:
        raise ModelError(f"resample is {number!r}; allowed: {', '.join(map(str, _FILTERS))}")
    return PreprocessingOptions(**{**vars(options), "resize": resize, "resize_mode": mode, "filter": _FILTERS[number]})


def _range(data: dict[str, Any]) -> tuple[float, float]:
    """Return the numbers to which black and white are rescaled."""
    if data.get("rescale_offset"):
        return -1.0, 1.0
    return 0.0, 255 * float(data.get("rescale_factor", 1 / 255)) if data.get("do_rescale", True) else 255.0


def _resize(size: tuple[int, int], image: tuple[int, int] | None, crop_pct: float | None) -> tuple[int, str]:
    """Return (resize, resize_mode) for a size: (0, n) sets the shorter side to n; two sides squash the picture."""
    height, width = size
    if not height and crop_pct and width >= CONVNEXT_SQUASHES:
        return width, "squash"
    if not height:
        return (int(width / crop_pct) if crop_pct else width), "crop"
    if image is not None and height * image[1] != width * image[0]:
        raise ModelError(
            f"pictures are resized to {height}x{width} and then cropped to {image[0]}x{image[1]}, which has a "
            f"different aspect ratio"
        )
    return max(size), "squash"


def _sides(value: Any) -> tuple[int, int] | None:
    """Return a size as (height, width), or as (0, n) if it specifies a shorter side of n."""
    if value is None:
        return None
    if isinstance(value, int):
        return 0, value
    if isinstance(value, list):
        return int(value[0]), int(value[1])
    if "shortest_edge" in value:
        return 0, int(value["shortest_edge"])
    return int(value["height"]), int(value["width"])


def _timm(data: dict[str, Any]) -> PreprocessingOptions:
    """Return the options specified by timm's `pretrained_cfg`."""
    if not data:
        return PreprocessingOptions()
    sides = tuple(int(side) for side in data["input_size"][1:])
    mode = _MODES[data.get("crop_mode", "center")]
    crop = float(data.get("crop_pct") or 0.875)
    return PreprocessingOptions(
        mean=_numbers(data["mean"]),
        std=_numbers(data["std"]),
        input_range=(0.0, 1.0),
        channel_order="rgb",
        usual_size=(sides[0], sides[1]),
        resize=None if mode == "pad" else math.floor(max(sides) / crop),
        resize_mode=mode,
        filter=data.get("interpolation", "bicubic"),
    )


def _timm_labels(data: dict[str, Any]) -> tuple[str, ...] | None:
    names = data.get("label_names") or data.get("pretrained_cfg", {}).get("label_names")
    texts = data.get("label_descriptions") or {}
    if not isinstance(names, list) or not names:
        return None
    return tuple(str(texts.get(name, name)) for name in names)


def read_id2label(data: Any) -> tuple[str, ...] | None:
    """Return the labels of an `id2label` object, {"0": "cat", ...}, in numeric order, or None if the numbers do
    not start from 0 without gaps."""
    if not isinstance(data, dict) or not data:
        return None
    try:
        numbers = sorted((int(key), str(value)) for key, value in data.items())
    except ValueError:
        return None
    return tuple(label for _, label in numbers) if [number for number, _ in numbers] == list(range(len(data))) else None


def _numbers(values: Any) -> tuple[float, ...]:
    """Return a tuple with a single number or with one number per channel."""
    listed = values if isinstance(values, list) else [values]
    numbers = tuple(float(value) for value in listed)
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError
    return numbers
