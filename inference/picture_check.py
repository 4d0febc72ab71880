"""Measure the accuracy of a network on pictures with known classes, both with its own preprocessing and with common
alternatives.

The outputs are computed by the golden model. If an alternative has a higher accuracy, the assumed preprocessing is
probably wrong.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from ..models.errors import InputError
from ..models.files import Model
from ..models.golden import argmax, run_network
from ..models.importing.picture import IMAGENET_MEAN, IMAGENET_STD, default_resize
from ..models.inputs import ImageInput
from ..models.network import Network
from ..models.preprocess import open_image, preprocess
from ..models.regular_files import describe, open_regular
from .pictures import MAX_THREADS, decode_ahead
from .search import InputProblem, find_pictures

MAX_WORK = 1 << 40  # maximum number of multiply-accumulates of all runs; takes about a minute
MAX_SECONDS = 60.0  # time limit for all pictures; the remaining pictures are left out
FEWEST, AT_ONCE = 8, 8  # number of pictures run regardless of the amount of work, and number per batch
BATCH_BYTES, FLOAT_BYTES = 256 << 20, 4  # limit for the largest activations of a batch, and bytes per value
MAX_BYTES = 64 << 20  # maximum size in bytes of a table of classes


@dataclass(frozen=True)
class Way:
    """A preprocessing variant: its name, the import options that select it, and the number of correct predictions."""

    name: str
    options: str
    correct: int
    total: int


@dataclass(frozen=True)
class PictureCheck:
    """The preprocessing variants that were tried, starting with the network's own, and the pictures that were unusable
    or left out."""

    ways: tuple[Way, ...]
    problems: tuple[InputProblem, ...]
    left_out: int

    @property
    def better(self) -> Way | None:
        """Return the variant with the most correct predictions if it is clearly better than the network's
        preprocessing, or None."""
        first, best = self.ways[0], max(self.ways, key=lambda way: way.correct)
        return best if best.correct - first.correct > max(1, 0.1 * first.total) else None


def check_pictures(model: Model, folder: Path, expect: Path | None) -> PictureCheck:
    """Run the pictures in a folder, with classes from a table or from the names of subfolders.

    Raises InputError if the network has no classes or does not read photos, if the classes are unknown, or if no
    picture is usable.
    """
    network = model.network
    spec = network.input
    if not isinstance(spec, ImageInput) or spec.preprocess != "photo" or not network.answer_labels:
        raise InputError("--check-pictures requires a network that reads photos and outputs classes")
    names, not_found = find_pictures([str(folder)], recursive=True)
    problems = list(not_found)
    classes = _classes_of(names, folder, expect, network.labels, problems)
    labelled = [name for name in names if name in classes]
    if not labelled:
        detail = f": {problems[0].input}: {problems[0].message}" if problems else ""
        raise InputError(f"--check-pictures {folder}: no picture of a known class{detail}")
    ways = _ways(spec)
    shapes = network.shapes()
    sample = _sample(labelled, network, len(ways))
    bytes_per_picture = max(math.prod(shape) for shape in (*shapes.values(), spec.shape)) * FLOAT_BYTES
    at_once = max(1, min(AT_ONCE, BATCH_BYTES // (bytes_per_picture * len(ways))))
    right = dict.fromkeys(range(len(ways)), 0)
    read_names: list[str] = []
    total = 0
    for part, batches in _read(sample, [way for *_, way in ways], at_once, problems, read_names):
        labels = np.array([classes[name] for name in part], np.int32)
        total += len(part)
        for number, batch in enumerate(batches):
            answers = argmax(run_network(network, model.tensors, batch).scores)
            right[number] += int((answers == labels).sum())
    if not total:
        raise InputError(f"--check-pictures {folder}: {problems[0].input}: {problems[0].message}")
    results = tuple(Way(name, options, right[number], total) for number, (name, options, _) in enumerate(ways))
    return PictureCheck(results, tuple(problems), len(labelled) - len(read_names))


def _sample(names: Sequence[str], network: Network, ways: int) -> list[str]:
    """Return a sample of evenly spaced pictures, as many as MAX_WORK allows if each is preprocessed in all `ways`."""
    shapes = network.shapes()
    work = sum(layer.multiply_accumulates(*(shapes[read] for read in layer.inputs)) for layer in network.layers)
    count = min(len(names), max(FEWEST, MAX_WORK // max(1, work * ways)))
    sample = [names[index] for index in np.linspace(0, len(names) - 1, count).round().astype(int)]
    Random(0).shuffle(sample)  # the pictures that run before the time limit then cover all classes
    return sample


def _ways(spec: ImageInput) -> list[tuple[str, str, ImageInput]]:
    """Return (name, options, input) of the network's own preprocessing, followed by common alternatives."""
    count, zeros, ones = spec.channels, (0.0,) * spec.channels, (1.0,) * spec.channels
    step = -1 if spec.channel_order == "bgr" else 1
    others = [
        ("0 to 1", "--input-range 0,1 --mean 0 --std 1", replace(spec, mean=zeros, std=ones)),
        ("-1 to 1", "--input-range -1,1", replace(spec, mean=(0.5,) * count, std=(0.5,) * count)),
        ("0 to 255", "--input-range 0,255", replace(spec, mean=zeros, std=(1 / 255,) * count)),
    ]
    if count == 3:
        usual = replace(spec, mean=IMAGENET_MEAN[::step], std=IMAGENET_STD[::step])
        order = "rgb" if spec.channel_order == "bgr" else "bgr"
        reversed_order = replace(spec, channel_order=order, mean=spec.mean[::-1], std=spec.std[::-1])
        others += [
            ("ImageNet's mean and deviation", "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225", usual),
            (f"colours as {order}", f"--channel-order {order}", reversed_order),
        ]
    side = max(spec.height, spec.width)
    if spec.resize_mode == "crop":
        others.append(("squashed", "--resize-mode squash", replace(spec, resize_mode="squash", resize=side)))
    else:
        resize = default_resize(spec.height, spec.width)
        others.append(("cropped", "--resize-mode crop", replace(spec, resize_mode="crop", resize=resize)))
    return [("as imported", "", spec)] + [way for way in others if way[2] != spec]


def _read(
    names: Sequence[str], specs: Sequence[ImageInput], at_once: int, problems: list[InputProblem], tried: list[str]
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield usable pictures, at most `at_once` at a time, and a batch of them for each variant [V, B, C, H, W].

    `tried` receives the names of all pictures, and `problems` the unusable ones. The iteration ends early after
    MAX_SECONDS.
    """

    def decode(name: str) -> np.ndarray:
        image = open_image(name)
        return np.stack([preprocess(image, spec) for spec in specs])

    began = time.monotonic()
    batch_names: list[str] = []
    values: list[np.ndarray] = []
    threads = min(MAX_THREADS, os.cpu_count() or 1, at_once)
    decoded = decode_ahead(names, decode, at_once, threads)
    for name, value in decoded:
        tried.append(name)
        if isinstance(value, InputError):
            problems.append(InputProblem(name, str(value)))
        else:
            batch_names.append(name)
            values.append(value)
        is_late = time.monotonic() - began > MAX_SECONDS
        if batch_names and (len(batch_names) == at_once or len(tried) == len(names) or is_late):
            yield batch_names, np.stack(values, axis=1)
            batch_names, values = [], []
        if is_late:
            break


def _label_in(table: Mapping[str, str], name: str, folder: Path) -> str | None:
    """Look up the label of a picture in a table by its path below the folder, its file name or its stem."""
    path = Path(name)
    keys = (path.relative_to(folder).as_posix() if path.is_relative_to(folder) else name, path.name, path.stem)
    return next((table[key] for key in keys if key in table), None)


def _classes_of(
    names: Sequence[str], folder: Path, expect: Path | None, labels: Sequence[str], problems: list[InputProblem]
) -> dict[str, int]:
    """Return the class of each picture, keyed by name. Pictures without a known class are left out, with one problem
    each."""
    known = {label: number for number, label in reversed(list(enumerate(labels)))}
    table = _read_table(expect) if expect is not None else None
    classes = {}
    for name in names:
        label = Path(name).parent.name if table is None else _label_in(table, name, folder)
        if label is None:
            problems.append(InputProblem(name, f"{expect} contains no line for this picture"))
        elif label in known:
            classes[name] = known[label]
        elif label.isascii() and label.isdigit() and int(label) < len(labels):
            classes[name] = int(label)
        else:
            advice = "" if expect else "; --expect FILE.csv specifies the classes of pictures"
            problems.append(InputProblem(name, f"{label!r} is not a class of the network{advice}"))
    return classes


def _read_table(path: Path) -> Mapping[str, str]:
    """Read rows that contain the name of a picture and its class (label or number)."""
    try:
        with open_regular(path) as file:
            text = file.read(MAX_BYTES).decode("utf-8-sig")
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"--expect {path}: {describe(error)}") from None
    short = next((number for number, row in enumerate(rows, start=1) if len(row) < 2), None)
    if short is not None or not rows:
        raise InputError(f"--expect {path}: line {short or 1} must be a file name and a class, such as a.jpg,cat")
    return {row[0].strip(): row[1].strip() for row in rows}
