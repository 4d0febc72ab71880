"""`trninfer.classify` and `trninfer.predict`: inputs of any kind in, typed answers out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..models.errors import InputError, ModelError
from ..models.files import Model, load_model
from ..models.inputs import FeatureInput, ImageInput, Input, PartInput, SeveralInputs
from ..models.preprocess import preprocess
from ..runtime.backend import BACKENDS, DTYPES
from ..runtime.choose import choose_backend
from ..runtime.session import BatchSession, Session
from ..runtime.timing import LayerTiming
from .arrays import check_unmasked
from .feature_rows import FeatureRows, numbered
from .features import read_features
from .pictures import decode_ahead, read_picture
from .predictions import Prediction
from .stream import Batch, answer_batches

Picture = Union[str, os.PathLike[str], Image.Image, "npt.NDArray[np.generic]"]
Pictures = Picture | Mapping[str, Any]


@dataclass(frozen=True)
class Answers:
    """What a network made of some inputs, and how long each of its layers took.

    `predictions` are in the order of the inputs. `layers` has a row a kernel launch of the network, added up over all
    batches; `total_us` is the microseconds of all of them, and `latency_kind` says whether they were "predicted" or
    "measured".
    """

    predictions: tuple[Prediction, ...]
    layers: tuple[LayerTiming, ...]
    total_us: float
    latency_kind: str
    model: str
    backend: str
    target: str
    dtype: str

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The label of each input; None where the network gives values."""
        return tuple(prediction.label for prediction in self.predictions)

    @property
    def classes(self) -> npt.NDArray[np.int32]:
        """The class of each input, int32 [N], from the argmax on the chip; -1 where the network gives values."""
        found = [-1 if answer.class_index is None else answer.class_index for answer in self.predictions]
        return np.array(found, np.int32)


def classify(
    images: Pictures | Iterable[Pictures],
    model: str | os.PathLike[str] | Model = "digits-cnn",
    *,
    dtype: str = "float32",
    target: str | None = None,
    backend: str = "auto",
    batch_size: int = 16,
    top_k: int = 5,
    cores: int = 1,
    cluster: str | None = None,
) -> Answers:
    """Tell what pictures show.

    `images` is a picture or an iterable of them, which is read as far as batches need it. A picture is the path of a
    file, a PIL image, a uint8 array [H, W], [H, W, 3] or [H, W, 4], or a floating point array [C, H, W] that is the
    network's own input already; arrays with one more dimension are several pictures. The `input` of a prediction is the
    path, or the picture's number from 0. For a network of several inputs, a picture is a dict with each of them by
    name: a picture, or numbers for an input of features. Of several outputs, a prediction has each in `outputs`.

    `model` is a bundled name, the path of a .safetensors file, or a loaded model; `dtype` "float32", "bfloat16" or
    "float16"; `target` "trn1", "trn2" or "trn3" (by default as the command line's); `backend` "auto", "neuron" or
    "sim"; `top_k` how many labels a prediction has at most. With `cores` above 1, or the address of a Ray cluster as
    `cluster`, so many workers share the batches (see docs/cluster.md); it takes the extra `cluster`.

    Raises InputError, naming the picture, at the first that cannot be used, and what the module says.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    spec = loaded.network.input
    if isinstance(spec, FeatureInput):
        raise ModelError(f"model {loaded.network.name!r} reads features, not pictures; use predict")
    batches = _picture_batches(_separate(images), spec, batch_size)
    return _run(loaded, batches, _Where(dtype, target, backend, batch_size, cores, cluster), top_k)


def predict(
    features: str | os.PathLike[str] | npt.ArrayLike,
    model: str | os.PathLike[str] | Model = "digits-ffnn",
    *,
    dtype: str = "float32",
    target: str | None = None,
    backend: str = "auto",
    batch_size: int = 2048,
    top_k: int = 5,
    cores: int = 1,
    cluster: str | None = None,
) -> Answers:
    """Classify rows of features.

    `features` is an array [N, features], or [features] for one row, of finite real numbers, or the path of a .bin,
    .npy, .npz or .csv file as `trninfer ffnn --data` reads it. The `input` of a prediction is the number of its row.
    The other arguments are as those of `classify`.

    Raises InputError for features that cannot be used, and what the module says.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    spec = loaded.network.input
    if not isinstance(spec, FeatureInput):
        raise ModelError(f"model {loaded.network.name!r} reads pictures, not features; use classify")
    with _feature_rows(features, spec.features) as rows:
        where = _Where(dtype, target, backend, batch_size, cores, cluster)
        return _run(loaded, numbered(rows, batch_size, 0), where, top_k)


class _Collected:
    """Takes answers and keeps them all."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []

    def add(self, predictions: Sequence[Prediction]) -> bool:
        self.predictions += predictions
        return True


@dataclass(frozen=True)
class _Where:
    """Where a network runs, and how, as the functions are told; ValueError for what is not allowed."""

    dtype: str
    target: str | None
    backend: str
    batch_size: int
    cores: int
    cluster: str | None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; allowed are {', '.join(DTYPES)}")
        if self.backend not in BACKENDS:
            raise ValueError(f"backend is {self.backend!r}; allowed are {', '.join(BACKENDS)}")
        for name, value in (("batch_size", self.batch_size), ("cores", self.cores)):
            if value < 1:
                raise ValueError(f"{name} is {value}; at least 1 is needed")

    @contextlib.contextmanager
    def open(self, model: Model) -> Iterator[BatchSession]:
        """A session of a model there."""
        if self.cores == 1 and self.cluster is None:
            yield Session(model, choose_backend(self.backend, self.target), self.dtype, self.batch_size)
            return
        from ..runtime.cluster.shared_session import share_out

        with share_out(
            model, self.dtype, self.cores, backend=self.backend, target=self.target, address=self.cluster
        ) as session:
            yield session


def _run(model: Model, batches: Iterable[Batch], where: _Where, top_k: int) -> Answers:
    if top_k < 1:
        raise ValueError(f"top_k is {top_k}; at least 1 is needed")
    collected = _Collected()
    with where.open(model) as session:
        labels = min(top_k, max(len(named.labels) for named in model.network.named_outputs))
        result = answer_batches(session, batches, collected, labels, lambda done: None, refuse=_raise)
        return Answers(
            predictions=tuple(collected.predictions),
            layers=result.layers,
            total_us=sum(layer.latency_us for layer in result.layers),
            latency_kind=session.info.latency_kind,
            model=model.network.name,
            backend=session.info.name,
            target=session.info.target,
            dtype=where.dtype,
        )


def _raise(name: str | int, reason: str) -> None:
    raise InputError(f"{name if isinstance(name, str) else f'input {name}'}: {reason}")


def _separate(images: Pictures | Iterable[Pictures]) -> Iterator[Pictures]:
    """The pictures one by one."""
    if isinstance(images, (str, os.PathLike, Image.Image, Mapping)):
        yield images
    elif isinstance(images, np.ndarray):
        prepared = images.dtype.kind == "f"
        several = images.ndim == 4 or (images.ndim == 3 and not prepared and images.shape[-1] not in (3, 4))
        yield from images if several else (images,)
    else:
        for image in images:
            yield from _separate(image) if isinstance(image, np.ndarray) else (image,)


def _picture_batches(images: Iterator[Pictures], spec: Input, batch_size: int) -> Iterator[Batch]:
    names: list[str | int] = []
    batch: list[np.ndarray] = []
    # One thread: what keeps Pillow's warnings back while it decodes is not made for several.
    decoded = decode_ahead(enumerate(images), lambda numbered: _prepare_all(numbered[1], spec), batch_size, 1)
    for (number, image), values in decoded:
        name = os.fspath(image) if isinstance(image, (str, os.PathLike)) else number
        if isinstance(values, InputError):
            raise InputError(f"{name if isinstance(name, str) else f'picture {name}'}: {values}")
        names.append(name)
        batch.append(values)
        if len(batch) == batch_size:
            yield names, np.stack(batch)
            names, batch = [], []
    if batch:
        yield names, np.stack(batch)


def _prepare_all(image: Pictures, spec: Input) -> np.ndarray:
    """A picture, or several inputs by name, as the network's input, float32; InputError where they cannot be used."""
    if not isinstance(spec, SeveralInputs):
        if not isinstance(spec, ImageInput) or isinstance(image, Mapping):
            raise InputError("the network has one input; give a picture, not a dict")
        return _prepare(image, spec)
    names = [part.name for part in spec.parts]
    if not isinstance(image, Mapping) or sorted(map(str, image)) != sorted(names):
        raise InputError(f"the network has several inputs; give a dict with {', '.join(map(repr, names))}")
    arrays = {}
    for part in spec.parts:
        try:
            arrays[part.name] = _prepare_part(image[part.name], part.input)[None]
        except InputError as error:
            raise InputError(f"input {part.name!r}: {error}") from None
    return spec.pack(arrays)[0]


def _prepare_part(values: Any, spec: PartInput) -> np.ndarray:
    """A picture as one of several inputs [C, H, W], or numbers as one of features [F], float32."""
    if isinstance(spec, ImageInput):
        return _prepare(values, spec)
    try:
        numbers = np.asarray(values, np.float32).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(f"{type(values).__name__} is no array of real numbers") from None
    if len(numbers) != spec.features or not np.isfinite(numbers).all():
        raise InputError(f"{len(numbers)} numbers; {spec.features} finite ones are needed")
    return numbers


def _prepare(image: Picture, spec: ImageInput) -> np.ndarray:
    """A picture as the network's input, float32 [C, H, W]; InputError where it cannot be used."""
    if isinstance(image, (str, os.PathLike)):
        return read_picture(Path(image), spec)
    if isinstance(image, Image.Image):
        return preprocess(image, spec)
    if not isinstance(image, np.ndarray):
        raise InputError(f"{type(image).__name__} is no picture; give a path, a PIL image or an array")
    check_unmasked(image)
    if image.dtype.kind == "f" and image.shape == spec.shape:
        if not np.isfinite(image).all():
            raise InputError("holds NaN or infinity")
        return image.astype(np.float32)
    if image.dtype == np.uint8 and 0 not in image.shape and (image.ndim == 2 or image.shape[2:] in ((3,), (4,))):
        return preprocess(Image.fromarray(np.ascontiguousarray(image)), spec)
    raise InputError(
        f"an array {list(image.shape)} of {image.dtype}; pictures are uint8 [H, W], [H, W, 3] or [H, W, 4], and this "
        f"network's own input is {list(spec.shape)} of float32"
    )


def _feature_rows(features: str | os.PathLike[str] | npt.ArrayLike, count: int) -> FeatureRows:
    """Features from anywhere as rows that have been checked; InputError where they cannot be used."""
    if isinstance(features, (str, os.PathLike)):
        return read_features(Path(features), count)
    try:
        values = np.asarray(features)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"features: {error}") from None
    try:
        for part in features if isinstance(features, (list, tuple)) else (features,):
            check_unmasked(part)
    except InputError as error:
        raise InputError(f"features: {error}") from None
    if values.dtype.kind not in "fiub":
        raise InputError(f"features are of type {values.dtype}; real numbers are needed")
    rows = FeatureRows.in_memory("features", values)
    rows.check_shape(count)
    rows.check_finite()
    return rows
