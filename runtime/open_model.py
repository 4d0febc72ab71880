"""Open models by name or path. ONNX files are imported into the cache when they are opened for the first time.

A cache entry depends on the ONNX file, the files that contain its weights, the configuration in the same folder, and
trninfer's version. Entries are written atomically; an unreadable entry is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from ..lowering.cache_folder import user_cache
from ..models.errors import ModelError
from ..models.files import Model, StagedModel, load_model
from ..version import __version__

SUFFIXES = (".onnx", ".onnx.gz")
FOLDER = "imported"  # renamed whenever the format of the cache changes
_EXTERNAL = b"location"  # key under which an ONNX file stores the name of a weight file
_LOG = logging.getLogger(__name__)

Note = Callable[[str], None]


def open_model(
    name_or_path: str | os.PathLike[str], note: Note | None = None, size: tuple[int, int] | None = None
) -> Model:
    """Read a bundled model, a model file or an ONNX file.

    An ONNX file is imported as `trninfer import` does without options, with checks against ONNX Runtime and on the
    simulator. `note` is called with a line that explains how to save the result. `size` is the (height, width) of
    pictures if the ONNX file does not specify it. Raises ModelError with a one-line message, as `load_model` and
    `import_network` do.
    """
    text = os.fspath(name_or_path)
    if not text.lower().endswith(SUFFIXES) or not os.path.isfile(text):
        if size is not None:
            raise ModelError(f"{text}: --input-size requires an ONNX file with variable height and width")
        return load_model(name_or_path)
    path = Path(text)
    entry = _entry(path, size)
    model = _read(entry) or _import(path, entry, size)
    if note is not None:
        suggested_name = path.name[: path.name.lower().rindex(".onnx")] + ".safetensors"
        more = [] if size is None else ["--input-size", f"{size[0]}x{size[1]}"]
        command = shlex.join(["trninfer", "import", text, *more, "-o", suggested_name])
        note(f"{text}: imported for this run; {command} saves the network and prints the assumptions")
    return model


def _entry(path: Path, size: tuple[int, int] | None) -> Path | None:
    """Return the cache entry of an ONNX file, or None if nothing can be cached."""
    folder = user_cache(FOLDER, FOLDER)
    if folder is None:
        return None
    try:
        content = path.read_bytes()
        parts = [__version__.encode(), str(size).encode(), content, *_states(path, content)]
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return folder / f"{digest.hexdigest()[:32]}.safetensors"


def _states(path: Path, content: bytes) -> Iterator[bytes]:
    """Yield the configuration that an import reads, followed by the names, sizes and modification times of files that
    may contain weights."""
    from ..models.importing.preprocessor import CONFIG, PREPROCESSOR

    for folder in (path.parent, path.resolve().parent.parent):
        for name in (CONFIG, PREPROCESSOR):
            with contextlib.suppress(OSError):
                yield (folder / name).read_bytes()
    if _EXTERNAL in content:
        for file in sorted(path.parent.rglob("*")):
            with contextlib.suppress(OSError):
                state = file.stat()
                yield f"{file}\0{state.st_size}\0{state.st_mtime_ns}".encode("utf-8", "surrogateescape")


def _read(entry: Path | None) -> Model | None:
    """Return the network in a cache entry, or None if the entry is missing or unreadable."""
    if entry is None or not entry.is_file():
        return None
    try:
        return load_model(entry)
    except ModelError as error:
        _LOG.info("imported anew: %s", error)
        return None


def _import(path: Path, entry: Path | None, size: tuple[int, int] | None) -> Model:
    """Import an ONNX file, and store the result in the cache if that is writable."""
    from ..models.importing import PreprocessingOptions, import_network
    from .network_check import check_network

    imported = import_network(path, PreprocessingOptions(size=size))
    if not imported.comparison.passed:
        raise ModelError(f"{path}: the imported network differs from ONNX Runtime; see trninfer import {path}")
    model = Model(imported.network, dict(imported.tensors), imported.metadata)
    if not check_network(model, imported.comparison.sensitivity).passed:
        raise ModelError(f"{path}: the simulator computes the imported network incorrectly; see trninfer import {path}")
    if entry is not None:
        with contextlib.suppress(OSError):
            entry.parent.mkdir(parents=True, exist_ok=True)
            with StagedModel(entry, model.network, model.tensors, model.metadata) as staged:
                staged.commit()
    return model
