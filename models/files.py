"""Model files: a single .safetensors file with the tensors, whose metadata describes the network and its origin.

All metadata values are strings: `trninfer_format` (the version, see below), `network` (see `Network.to_json`) and, if
known, `trained_on`, `accuracy` (a JSON list of {"on", "correct", "total"}), `license` and others. Reading a file
executes no code: the format contains no pickles, and the network is plain data that is validated field by field.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..simulator.machine.atomic_file import create_beside, replace_with
from .checks import Shape
from .errors import ModelError
from .network import Network
from .regular_files import open_regular
from .tensor_file import TensorFile, check_types, read_table, read_tensors

_LOG = logging.getLogger(__name__)

FORMAT_VERSION = "2"
READABLE_VERSIONS = ("1", FORMAT_VERSION)  # version 1: plain sequences of layers
WEIGHTS_DIRECTORY = Path(__file__).resolve().parent.parent / "weights"


@dataclass(frozen=True)
class Model:
    """A network with its tensors (float32, keyed by name) and the metadata strings of its file."""

    network: Network
    tensors: Mapping[str, np.ndarray]
    metadata: dict[str, str]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions that the import made about pictures, as text; empty if file and options specify
        everything."""
        return self._notes("assumed")

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes recorded during import, as text."""
        return self._notes("notes")

    def _notes(self, key: str) -> tuple[str, ...]:
        try:
            notes = json.loads(self.metadata.get(key, "[]"))
        except (ValueError, RecursionError):
            return ()
        return tuple(map(str, notes)) if isinstance(notes, list) else ()


@dataclass(frozen=True)
class Header:
    """The header of a model file, which is read before the tensors."""

    network: Network
    metadata: dict[str, str]
    file: TensorFile


def resolve(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the path of a model, given its bundled name or path; raise ModelError if there is none."""
    text = os.fspath(name_or_path)
    bundled = WEIGHTS_DIRECTORY / f"{text}.safetensors"
    path = Path(text)
    try:
        if path.name == text and bundled.is_file():
            return bundled
        if path.is_file():
            return path
        exists = path.exists()
    except (OSError, ValueError) as error:  # an invalid file name, or a folder that may not be read
        raise ModelError(f"{text[:100]!r}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if exists:
        raise ModelError(f"{text}: not a file; expected a .safetensors file or the name of a bundled model")
    known = ", ".join(sorted(file.stem for file in WEIGHTS_DIRECTORY.glob("*.safetensors"))) or "none"
    raise ModelError(f"{text}: no such model; use a bundled model ({known}) or the path of a .safetensors file")


def read_header(path: Path) -> Header:
    """Read the network, metadata and tensor table of a model file; raise ModelError for any other file."""
    file = read_table(path)
    version = file.metadata.get("trninfer_format")
    if version is None or "network" not in file.metadata:
        raise ModelError(f"{path}: this safetensors file has no trninfer network in its metadata")
    if version not in READABLE_VERSIONS:
        raise ModelError(
            f"{path}: format version {version[:20]!r}; this release reads {' and '.join(READABLE_VERSIONS)}"
        )
    try:
        network = Network.from_json(file.metadata["network"])
        _check_names_and_shapes(network, {name: entry.shape for name, entry in file.entries.items()})
        check_types(file, file.entries)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return Header(network, file.metadata, file)


def load_model(name_or_path: str | os.PathLike[str]) -> Model:
    """Read a model by bundled name or path; tensors stored as float32, float16 or bfloat16 are returned as float32.

    Raises ModelError with a one-line message if the file is missing, truncated, corrupt or not a model file, if its
    tensors do not match its network, or if they contain NaN or infinity.
    """
    path = resolve(name_or_path)
    began = time.perf_counter()
    header = read_header(path)
    tensors = read_tensors(header.file, header.network.tensor_shapes())
    try:
        check_tensors(header.network, tensors)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    _LOG.info("read %s, %d bytes, in %.3f s", path, header.file.file_bytes, time.perf_counter() - began)
    return Model(header.network, tensors, header.metadata)


def save_model(
    path: str | os.PathLike[str],
    network: Network,
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a model file atomically; the same content always produces the same bytes.

    Tensors are stored as float32. Raises ModelError if they do not match the network, OSError if the path cannot be
    written.
    """
    with StagedModel(path, network, tensors, metadata) as staged:
        staged.commit()


class StagedModel:
    """A model file that is written under a temporary name and renamed by `commit`.

    `model` reads the tensors from that file, so that the caller can free its copies. Leaving the context without
    calling `commit` removes the file. Raises the same exceptions as `save_model`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        network: Network,
        tensors: Mapping[str, np.ndarray],
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        check_tensors(network, tensors)
        strings = {**(metadata or {}), "trninfer_format": FORMAT_VERSION, "network": network.to_json()}
        table: dict[str, object] = {"__metadata__": dict(sorted(strings.items()))}
        begin, places = 0, {}
        for name, shape in network.tensor_shapes().items():
            end = begin + 4 * int(np.prod(shape))
            table[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
            places[name] = begin
            begin = end
        header = json.dumps(table, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)  # the format requires aligned data
        self._target = Path(path)
        file, self._temporary = create_beside(self._target)
        try:
            with file:
                file.write(struct.pack("<Q", len(header)) + header)
                for name in network.tensor_shapes():
                    file.write(np.ascontiguousarray(tensors[name], "<f4").reshape(-1).data)
            places = {name: 8 + len(header) + begin for name, begin in places.items()}
            mapped = MappedTensors(self._temporary, network.tensor_shapes(), places)
            self.model = Model(network, mapped, dict(metadata or {}))
        except BaseException:
            self._discard()
            raise

    def commit(self) -> None:
        """Rename the file, replacing any existing one; raise OSError on failure."""
        replace_with(self._temporary, self._target)

    def __enter__(self) -> StagedModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self._discard()

    def _discard(self) -> None:
        self._temporary.unlink(missing_ok=True)


class MappedTensors(Mapping[str, np.ndarray]):
    """Float32 tensors of a file, memory-mapped on each access so that they do not occupy memory permanently."""

    def __init__(self, path: Path, shapes: Mapping[str, Shape], places: Mapping[str, int]) -> None:
        """Open a file that contains tensors at the byte offsets `places`; it may be renamed or removed afterwards."""
        self._file = open_regular(path)
        self._shapes, self._places = dict(shapes), dict(places)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a tensor as a read-only array."""
        return np.asarray(np.memmap(self._file, "<f4", "r", self._places[name], self._shapes[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class NotFiniteError(ModelError):
    """The tensor `tensor` of a network contains NaN or infinity."""

    def __init__(self, tensor: str) -> None:
        super().__init__(f"tensor {tensor!r} contains NaN or infinity")
        self.tensor = tensor


def check_tensors(network: Network, tensors: Mapping[str, np.ndarray]) -> None:
    """Raise ModelError unless `tensors` are finite and match the network's tensors in names and shapes."""
    _check_names_and_shapes(network, {name: tensor.shape for name, tensor in tensors.items()})
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise NotFiniteError(name)


def _check_names_and_shapes(network: Network, shapes: Mapping[str, Shape]) -> None:
    expected = network.tensor_shapes()
    for name, shape in expected.items():
        if name not in shapes:
            raise ModelError(f"the tensor {name!r} is missing")
        if shapes[name] != shape:
            raise ModelError(f"tensor {name!r} has shape {list(shapes[name])}, but the network requires {list(shape)}")
    for name in shapes:
        if name not in expected:
            raise ModelError(f"the tensor {name!r} is not used by any layer of the network")
