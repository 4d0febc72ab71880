"""Known bugs of ONNX Runtime 1.23, the last version for Python 3.10; golden models are compared with newer versions
elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import onnxruntime

OLD = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 25)


def miscounts(include: int, pads: Sequence[int], ceil_mode: int) -> bool:
    """Return True if it divides an average over the padding by the wrong number, confusing the padding at both ends."""
    return bool(OLD and include and (ceil_mode or len(set(pads)) > 1))
