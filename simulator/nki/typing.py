"""`nki.typing`: names for annotations in kernels."""

from __future__ import annotations

from ..tensor import NkiTensor

tensor = NkiTensor

__all__ = ["NkiTensor", "tensor"]
