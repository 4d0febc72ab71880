"""Run pictures through a network whose predictions are boxes or a class map, for `detect` and `segment`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from .errors import UsageError
from .options import PictureOptions
from .picture_paths import PicturePaths

if TYPE_CHECKING:
    from ..models.files import Model
    from ..models.network import Network
    from .answering import Task

Sizes = dict[str | int, tuple[int, int]]  # width and height of each picture, removed after its prediction
_FINDS = {  # description, command, and option of `trninfer import`, by kind of output
    "boxes": ("boxes", "detect", "--boxes"),
    "map": ("a class for each pixel", "segment", "--output-kind map"),
}


@dataclass(frozen=True)
class TaskOptions(PictureOptions):
    """Options of commands whose predictions are not labels, without the options that apply only to labels."""

    top_k: ClassVar[None] = None  # type: ignore[misc]
    compare_backends: ClassVar[bool] = False  # type: ignore[misc]


def answer_pictures(
    kind: Literal["boxes", "map"],
    pictures: PicturePaths,
    model: str,
    options: PictureOptions,
    kept: tuple[Path | None, ...],
    make_task: Callable[[Model, list[str], Sizes], Task],
) -> int:
    """Run the specified pictures through a network with this kind of output; return the exit status.

    `kept` lists the files that no output may overwrite, in addition to the pictures.
    """
    started = time.perf_counter()
    command = _FINDS[kind][1]
    options.check()
    pictures.check_named(options.resume, command)

    from ..inference.arguments import in_layout
    from ..inference.pictures import ignore_warnings
    from ..models.inputs import ImageInput
    from .answering import answer_task, begin
    from .backends import load
    from .picture_inputs import PictureInputs

    run = begin(options, started)  # reports a missing backend before any input is read
    names, problems = pictures.find()
    options.check_kept(model, pictures.from_list, *kept, *names)
    loaded = load(model, options.quiet)
    spec = loaded.network.input
    if loaded.network.output.kind != kind or not isinstance(spec, ImageInput):
        raise UsageError(_other_command(loaded.network, kind))
    loaded = loaded if options.layout is None else in_layout(loaded, options.layout)
    ignore_warnings()
    sizes: Sizes = {}
    inputs = PictureInputs(names, problems, spec, options, command, sizes)
    return answer_task(run, loaded, inputs, make_task(loaded, names, sizes))


def _other_command(network: Network, kind: str) -> str:
    """Return the error message for a network with a different kind of output; it states the right command."""
    from ..models.inputs import FeatureInput

    expected, _, option = _FINDS[kind]
    if isinstance(network.input, FeatureInput):
        return f"model {network.name!r} reads features, not pictures; use trninfer ffnn"
    if network.output.kind in _FINDS:
        actual, command, _ = _FINDS[network.output.kind]
        return f"model {network.name!r} predicts {actual}, not {expected}; use trninfer {command}"
    finds = "classes" if network.output.is_labelled else network.output.kind
    return f"model {network.name!r} predicts {finds}, not {expected}; use trninfer classify, or import it with {option}"
