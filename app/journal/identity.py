"""The identity of a run: everything that its predictions depend on. A run can be resumed only by a run with the same
identity."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ...models.files import Model
from ...runtime.backend import BackendInfo
from ..errors import UsageError

Identity = dict[str, Any]  # command, model, weights, dtype, backend, target, top_k and others


def identify(command: str, model: Model, backend: BackendInfo, dtype: str, top_k: int) -> Identity:
    """Return the identity of a run for any command; `weights` distinguishes files of the same name."""
    weights = zlib.crc32(model.network.to_json().encode())
    for name in sorted(model.tensors):
        weights = zlib.crc32(np.ascontiguousarray(model.tensors[name]).data, weights)
    return {
        "command": command,
        "model": model.network.name,
        "weights": f"{weights:08x}",
        "dtype": dtype,
        "backend": backend.name,
        "target": backend.target,
        "top_k": top_k,
    }


def check_identity(name: str, earlier: dict[str, Any], identity: Identity) -> None:
    """Raise UsageError if the predictions in the file `name` were made with a different identity."""
    for key, value in identity.items():
        if key in earlier and earlier[key] != value:
            descriptions = {
                "weights": "other weights of the same model",
                "data": "another --data file, or one that has changed",
            }
            difference = descriptions.get(key) or f"{key.replace('_', '-')} {earlier[key]}, not {value}"
            raise UsageError(f"--resume: the answers in {name} were computed with {difference}")
