"""Feature files and the rows read from them."""

from pathlib import Path

import numpy as np
from trninfer.inference.features import read_features

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def everything(path: Path, features: int = 4) -> np.ndarray:
    """Return all rows of a file, read two at a time."""
    with read_features(path, features) as rows:
        return np.concatenate(list(rows.batches(2)))


def npy_header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
