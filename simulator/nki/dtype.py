"""`nki.dtype`: the data types by their names, as AWS's own kernels annotate them. A dtype of NKI is a string."""

from __future__ import annotations

from ..machine.dtypes import DTYPES

globals().update({name: name for name in DTYPES})

__all__ = [*DTYPES]
