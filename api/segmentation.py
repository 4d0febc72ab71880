"""`trninfer.segment`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..inference.arguments import Layout, OnError, RunArguments
from ..inference.python_inputs import Picture, PictureReader
from ..inference.segmenting import Segmenter
from ..models.errors import ModelError
from ..models.files import Model
from ..runtime.launch_options import BackendName, Dtype, Target
from .answers import Answers
from .functions import Findings, answer_all


def segment(
    inputs: Picture | Iterable[Picture],
    model: str | os.PathLike[str] | Model,
    *,
    dtype: Dtype = "float32",
    target: Target | None = None,
    backend: BackendName = "auto",
    batch_size: int = 16,
    cores: int = 1,
    cluster: str | None = None,
    layout: Layout | None = None,
    on_error: OnError = "raise",
    lnc: int = 1,
) -> Answers:
    """Find the class of each pixel in pictures.

    Each prediction has a `map`. Its `pixels` are the classes, uint8 [height, width] of the picture (uint16 for more
    than 255 classes), with the maximum value for pixels outside the network's input. Its `areas` are the classes that
    occur, largest first, each with `label`, `class_index`, `pixels` and `share`. For arrays of preprocessed numbers,
    the map has the size of the network's input.

    `model` is the path of a model file or of an ONNX file whose output is a map, or a loaded model. See `classify` for
    other arguments and errors.
    """
    arguments = RunArguments(
        dtype=dtype,
        target=target,
        backend=backend,
        batch_size=batch_size,
        cores=cores,
        cluster=cluster,
        layout=layout,
        on_error=on_error,
        lnc=lnc,
    )
    loaded = arguments.load(model)
    if loaded.network.output.kind != "map":
        raise ModelError(f"model {loaded.network.name!r} does not predict a map; use classify, detect or predict")
    with arguments.open(loaded) as session:
        findings = Findings(arguments, "picture")
        sizes: dict[str | int, tuple[int, int]] = {}
        batches = PictureReader(inputs, loaded.network.input, batch_size, arguments.layout, findings.refuse, sizes)
        return answer_all("segment", loaded, batches, session, findings, Segmenter(sizes, keeps_pixels=True))
