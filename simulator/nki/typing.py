"""`nki.typing`: names for use in annotations of kernels."""

from __future__ import annotations

from ..tensors.tensor import NkiTensor

tensor = NkiTensor

__all__ = ["NkiTensor", "tensor"]
