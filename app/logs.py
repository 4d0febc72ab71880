"""`-v`: write the logs of the packages (`trninfer.runtime` and so on) to standard error."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from .text import printable

VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, help="Log to standard error. If given twice, also log each batch.",
        show_default=False,
    ),
]  # fmt: skip


class _Lines(logging.Formatter):
    """Formats records as `trninfer: 0.52 s: text`, one line each, followed by the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"trninfer: {record.relativeCreated / 1000:.2f} s: {printable(record.getMessage())}"
        frames = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join([line, *map(printable, frames)])


def log_to_stderr(verbose: int) -> None:
    """Log nothing at verbosity 0, the main steps at 1, and each batch at 2."""
    logger = logging.getLogger("trninfer")
    for handler in [handler for handler in logger.handlers if isinstance(handler.formatter, _Lines)]:
        logger.removeHandler(handler)
    is_logging = verbose > 0 and sys.stderr is not None
    # Without any handler, Python writes warnings to standard error.
    handler = logging.StreamHandler() if is_logging else logging.NullHandler()
    handler.setFormatter(_Lines())
    logger.addHandler(handler)
    if is_logging:
        logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
