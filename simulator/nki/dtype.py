"""`nki.dtype`: the data types under the names used in annotations of AWS's kernels. In NKI, a dtype is a string."""

from __future__ import annotations

from ..machine.dtypes import DTYPES

globals().update({name: name for name in DTYPES})

__all__ = [*DTYPES]
