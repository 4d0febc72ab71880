"""Convert Python inputs (pictures and rows of features in any form, one or many) to batches for a network.

A picture is the path of a file or folder or a glob (as on the command line), the content of a file (bytes), a binary
file object, a PIL image, or an array. Rows of features are the path or the content of a file, a binary file object, or
an array. An array is a NumPy array, or anything that converts to one (`__array__`, `__dlpack__`: PyTorch, JAX, pandas).

`layout` specifies for all arrays whether channels are first or last. By default, arrays of numbers have the layout
specified in the model file, as in array files, and arrays of pixels (uint8) have channels last.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Union

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..models.errors import InputError
from ..models.inputs import ImageInput, Input, PartInput, SeveralInputs
from ..models.preprocess import decode_image, open_image
from ..models.regular_files import describe
from .arrays import check_unmasked, in_layout
from .pictures import SizeNote, convert_image, decode_ahead, examples, read_picture
from .search import find_pictures
from .stream import Batch


class SupportsArray(Protocol):
    """An object that NumPy converts to an array, such as a PyTorch tensor."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """Return the array."""


class SupportsDlpack(Protocol):
    """An object that another library exports as an array without a copy."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any:
        """Return a capsule with the values."""


File = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO]
Array = Union["npt.NDArray[Any]", SupportsArray, SupportsDlpack]
Picture = File | Image.Image | Array | Mapping[str, Any]
Rows = File | Array | Sequence[Any] | Iterable[Any]

Refuse = Callable[[str | int, str], None]
Named = tuple[str | int, Any]  # the name of an input, and the input or an InputError

_PIXELS = ((1,), (3,), (4,))  # possible shapes of the channels of a pixel


@dataclass(frozen=True)
class PathOnly:
    """The path of a file with one picture. Its prediction has a number instead of a name."""

    path: str


class PictureReader:
    """Iterates over (names, batch [B, *network.input.shape]) of pictures, `batch_size` at a time.

    Inputs are consumed lazily. `refuse` is called with the name of an unusable input and the reason. `sizes`, if given,
    is filled with the width and height of each picture, keyed by name.
    """

    def __init__(
        self,
        inputs: Any,
        spec: Input,
        batch_size: int,
        layout: str | None,
        refuse: Refuse,
        sizes: MutableMapping[str | int, tuple[int, int]] | None = None,
    ) -> None:
        self._sizes = sizes
        self._inputs = inputs
        self._spec = spec
        self._batch_size = batch_size
        self._layout = layout
        self._refuse = refuse

    def __iter__(self) -> Iterator[Batch]:
        names: list[str | int] = []
        batch: list[np.ndarray] = []
        # Use one thread, since suppressing Pillow's warnings during decoding is not thread-safe.
        decoded = decode_ahead(separate(self._inputs, self._layout), self._prepare, self._batch_size, 1)
        for (name, _), values in decoded:
            if isinstance(values, InputError):
                self._refuse(name, str(values))
                continue
            several = isinstance(self._spec, ImageInput) and values.ndim == 4
            for example, value in examples(str(name), values) if several else ((name, values),):
                names.append(example)
                batch.append(value)
                if len(batch) == self._batch_size:
                    yield names, np.stack(batch)
                    names, batch = [], []
        if batch:
            yield names, np.stack(batch)

    def _prepare(self, named: Named) -> np.ndarray:
        name, value = named
        if isinstance(value, InputError):
            raise value
        if isinstance(self._spec, SeveralInputs):
            return _pack(value, self._spec, self._layout)
        if isinstance(value, Mapping) or not isinstance(self._spec, ImageInput):
            raise InputError("the network has one input; pass a picture, not a dict")
        note_size = None if self._sizes is None else partial(self._sizes.__setitem__, name)
        return prepare_picture(value, self._spec, self._layout, note_size)


def separate(inputs: Any, layout: str | None = None) -> Iterator[Named]:
    """Yield the pictures in inputs one by one with their names: paths are used as names, other pictures are
    numbered."""
    for number, value in enumerate(_flatten(inputs, layout, nested=False)):
        if isinstance(value, (str, os.PathLike)):
            yield from _named_pictures(value)
        else:
            yield number, value


def _flatten(inputs: Any, layout: str | None, nested: bool) -> Iterator[Any]:
    if inputs is None or isinstance(inputs, (str, os.PathLike, bytes, bytearray, memoryview, Image.Image, Mapping)):
        yield inputs
        return
    if hasattr(inputs, "read"):
        yield inputs
        return
    if is_array(inputs):
        try:
            values = as_array(inputs)
        except InputError as error:
            yield error
            return
        if values.dtype != object:
            yield from values if _holds_several(values, layout) else (values,)
            return
        inputs = list(values.ravel())
    if not isinstance(inputs, Iterable) or nested:
        yield inputs
        return
    for item in inputs:
        yield from _flatten(item, layout, nested=True)


def _named_pictures(path: str | os.PathLike[str]) -> Iterator[Named]:
    """Return the pictures at a path, which are found as `trninfer classify` finds them."""
    names, problems = find_pictures([os.fsdecode(path)])
    yield from ((name, name) for name in names)
    yield from ((problem.input, InputError(problem.message)) for problem in problems)


def _holds_several(values: np.ndarray, layout: str | None) -> bool:
    """Return True for an array of several pictures. An array of pixels [3, H, W] may be one or three pictures,
    depending on `layout`."""
    if values.dtype.kind == "f" or layout == "CHW" or values.ndim != 3:
        return values.ndim == 4
    return values.shape[-1:] not in _PIXELS and (layout == "HWC" or values.shape[:1] not in _PIXELS)


def is_array(value: Any) -> bool:
    """Return True for NumPy arrays and for objects that convert to one."""
    return isinstance(value, np.ndarray) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def as_array(value: Any) -> np.ndarray:
    """Convert a value to an array. Raises InputError if that fails, for example for a tensor on a device or with a
    gradient."""
    check_unmasked(value)
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except Exception as error:  # other libraries may raise any exception
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:120]
    hint = "; pass tensor.detach().cpu().float()" if hasattr(value, "detach") else ""
    raise InputError(f"{type(value).__name__} cannot be converted to an array: {reason}{hint}")


def prepare_picture(
    value: Any, spec: ImageInput, layout: str | None = None, note_size: SizeNote | None = None
) -> np.ndarray:
    """Convert a picture in any form to the network's input, float32 [C, H, W]; a file of several arrays yields [N, C,
    H, W].

    `note_size` is called with the width and height of pictures, but not for arrays of numbers. Raises InputError if the
    picture is unusable.
    """
    if isinstance(value, PathOnly):
        picture = read_picture(value.path, spec, note_size)
        if picture.ndim != 3:
            raise InputError(f"holds {len(picture)} arrays; expected one")
        return picture
    if isinstance(value, (str, os.PathLike)):
        return read_picture(Path(value), spec, note_size)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return convert_image(open_image(io.BytesIO(bytes(value))), spec, note_size)
    if isinstance(value, Image.Image):
        return convert_image(decode_image(value), spec, note_size)
    if hasattr(value, "read"):
        return convert_image(open_image(io.BytesIO(read_content(value))), spec, note_size)
    if not is_array(value):
        raise InputError(
            f"{type(value).__name__} is not a picture; expected a path, bytes, a file, a PIL image or an array"
        )
    return _from_array(as_array(value), spec, layout, note_size)


def _from_array(values: np.ndarray, spec: ImageInput, layout: str | None, note_size: SizeNote | None) -> np.ndarray:
    """Convert an array of pixels, or of preprocessed numbers, to the network's input."""
    shapes = [spec.array_shape, spec.shape] if spec.layout == "HW" else [spec.array_shape]
    if values.dtype.kind == "f" and values.shape in shapes:
        return in_layout(values, spec)
    first = layout == "CHW"
    pixels = values.transpose(1, 2, 0) if first and values.ndim == 3 else values
    if values.dtype == np.uint8 and 0 not in values.shape and (values.ndim == 2 or pixels.shape[2:] in _PIXELS):
        grey = pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels
        return convert_image(Image.fromarray(np.ascontiguousarray(grey)), spec, note_size)
    raise InputError(
        f"an array of shape {list(values.shape)} and dtype {values.dtype}; pictures must be uint8 [H, W], "
        f"{'[3, H, W] or [4, H, W]' if first else '[H, W, 3] or [H, W, 4]'}, and this network's own input is "
        f"{list(spec.array_shape)} of float32{_hint(values, spec) if layout is None else ''}"
    )


def _hint(values: np.ndarray, spec: ImageInput) -> str:
    """Return a hint about the layout if the channels of an array are on a different axis than expected."""
    if values.ndim != 3:
        return ""
    if values.dtype == np.uint8:
        return "; layout='CHW' specifies channels first" if values.shape[:1] in _PIXELS else ""
    other_layout = {"CHW": "HWC", "HWC": "CHW"}.get(spec.layout)
    channels, height, width = spec.shape
    shape = (height, width, channels) if other_layout == "HWC" else (channels, height, width)
    return f"; use layout={other_layout!r} for it" if values.shape == shape and other_layout else ""


def _pack(value: Any, spec: SeveralInputs, layout: str | None) -> np.ndarray:
    """Pack several inputs, keyed by name, into the row of numbers that the network reads."""
    names = [part.name for part in spec.parts]
    if not isinstance(value, Mapping) or sorted(map(str, value)) != sorted(names):
        raise InputError(f"the network has several inputs; pass a dict with {', '.join(map(repr, names))}")
    arrays = {}
    for part in spec.parts:
        try:
            arrays[part.name] = _part(value[part.name], part.input, layout)[None]
        except InputError as error:
            raise InputError(f"input {part.name!r}: {error}") from None
    return spec.pack(arrays)[0]


def _part(value: Any, spec: PartInput, layout: str | None) -> np.ndarray:
    """Convert a picture for one of several inputs to float32 [C, H, W], or numbers to float32 features [F]."""
    if isinstance(spec, ImageInput):
        picture = prepare_picture(value, spec, layout)
        if picture.ndim != 3:
            raise InputError(f"holds {len(picture)} arrays; expected one")
        return picture
    numbers = read_numbers(value, "numbers").astype(np.float32).reshape(-1)
    if len(numbers) != spec.features or not np.isfinite(numbers).all():
        raise InputError(f"got {len(numbers)} numbers; expected {spec.features} finite numbers")
    return numbers


def read_numbers(value: Any, name: str) -> np.ndarray:
    """Convert a value to an array of real numbers. Raises InputError if that is not possible."""
    for part in value if isinstance(value, (list, tuple)) else ():
        check_unmasked(part)
    if is_array(value):
        values = as_array(value)
    else:
        try:
            values = np.asarray(value)
        except (ValueError, TypeError) as error:  # raised for rows of different lengths
            raise InputError(f"{name}: {str(error).splitlines()[0][:120]}") from None
    if values.dtype.kind not in "fiub" and str(values.dtype) != "bfloat16":
        raise InputError(f"{name} are of type {values.dtype}; expected real numbers")
    return values


def read_content(file: Any) -> bytes:
    """Return the remaining content of a binary file. Raises InputError if it cannot be read, or was opened as text."""
    try:
        content = file.read()
    except (OSError, ValueError) as error:
        raise InputError(describe(error)) from None
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InputError("the file was opened as text; open it with mode 'rb'")
    return bytes(content)
