"""`trninfer.import_model`: import a network from ONNX or PyTorch weights, like `trninfer import`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..models.errors import ArgumentError, ModelError
from ..models.files import Model, StagedModel
from ..models.importing import Comparison, ImportOptions, PreprocessingOptions, import_network
from ..runtime.network_check import NetworkCheck, check_network


@dataclass(frozen=True, repr=False)
class ImportedModel:
    """An imported network, ready for `classify`, `predict` and `bench`.

    `path` is the model file, or None if none was written. `notes` lists changes from the original file, and `assumed`
    lists the preprocessing that neither the file nor the caller specified. `comparison` is the comparison with ONNX
    Runtime, and `check` compares the simulator with the NumPy reference (None with `unchecked`). `str()` returns the
    output of the command.
    """

    model: Model
    path: Path | None
    notes: tuple[str, ...]
    assumed: tuple[str, ...]
    comparison: Comparison
    check: NetworkCheck | None
    _imported: Any = field(compare=False)  # models.importing.Imported

    def __str__(self) -> str:
        from ..app.import_model import summary

        return summary(self._imported, self.path, self.check)

    def __repr__(self) -> str:
        where = f", {self.path}" if self.path is not None else ""
        return f"<ImportedModel: {self.model.network.name} from {self._imported.source}{where}>"


def import_model(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    labels: Sequence[str] | None = None,
    pictures: Literal["digit", "photo"] | None = None,
    invert: bool = False,
    input_range: tuple[float, float] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channel_order: Literal["rgb", "bgr"] | None = None,
    resize: int | None = None,
    resize_mode: Literal["crop", "squash", "pad"] | None = None,
    filter: Literal["nearest", "bilinear", "bicubic", "lanczos"] | None = None,
    input_size: tuple[int, int] | None = None,
    output_names: Sequence[str] = (),
    output_kind: Literal["classes", "sigmoid", "values"] | None = None,
    activation: str | None = None,
    layers: str | None = None,
    unchecked: bool = False,
) -> ImportedModel:
    """Read a network from an ONNX file, or from PyTorch weights in .safetensors, and check it; see `trninfer import`.

    If `output` is given, a model file is written atomically. `labels` are the names of the classes. The arguments from
    `pictures` to `input_size` define the preprocessing that the file does not specify; `input_size` is (height, width).
    `output_names` lists the outputs to keep, and `output_kind` is the interpretation of the first one. For a state
    dict, `activation` is applied between the layers of a perceptron; use `layers` to describe any other sequence of
    layers.

    The network is compared with ONNX Runtime, if installed, and run on the simulator in batches. Raises ModelError if
    the outputs differ, if the simulator cannot run the network (unless `unchecked`), or if a file cannot be read, and
    ArgumentError if `output` is not writable.
    """
    preprocessing = PreprocessingOptions(
        input_range=input_range,
        mean=None if mean is None else tuple(mean),
        std=None if std is None else tuple(std),
        resize=resize,
        pictures=pictures,
        invert=invert,
        channel_order=channel_order,
        size=input_size,
        resize_mode=resize_mode,
        filter=filter,
    )
    if isinstance(labels, str):
        raise ArgumentError(f"labels is {labels!r:.60}; expected a list of names")
    options = ImportOptions(
        output_names=tuple(output_names),
        output_kind=output_kind,
        activation=activation,
        layers=layers,
        unchecked=unchecked,
    )
    names = None if labels is None else tuple(labels)
    return _import(Path(path), None if output is None else Path(output), preprocessing, names, options)


def _import(
    source: Path,
    target: Path | None,
    pictures: PreprocessingOptions,
    labels: tuple[str, ...] | None,
    options: ImportOptions,
) -> ImportedModel:
    imported = import_network(source, pictures, labels, options)
    if not imported.comparison.passed:
        error = imported.comparison.max_abs_error
        raise ModelError(f"{source}: the imported network differs from ONNX Runtime by up to {error:.2g}")
    model = Model(imported.network, dict(imported.tensors), imported.metadata)
    try:
        check = None if options.unchecked else check_network(model, imported.comparison.sensitivity)
    except ModelError as problem:
        raise ModelError(f"{source}: {problem}; unchecked=True imports it anyway") from None
    if check is not None and not check.passed:
        raise ModelError(f"{source}: the simulator computes the imported network incorrectly")
    if target is not None:
        try:
            with StagedModel(target, model.network, model.tensors, imported.metadata) as staged:
                staged.commit()
        except OSError as failure:
            raise ArgumentError(f"{target}: cannot be written: {failure.strerror or failure}") from None
    return ImportedModel(
        model=model,
        path=target,
        notes=imported.notes,
        assumed=imported.assumed,
        comparison=imported.comparison,
        check=check,
        _imported=imported,
    )
