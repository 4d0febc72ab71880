"""`nki.dtype`: the data types by name, as used in annotations in AWS's kernels. In NKI, a dtype is a string."""

from __future__ import annotations

from ..machine.dtypes import DTYPES

globals().update({name: name for name in DTYPES})

__all__ = [*DTYPES]
