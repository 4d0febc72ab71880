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
    """Formats records as `trninfer: 0.52 s: text`, one line each."""

    def format(self, record: logging.LogRecord) -> str:
        return f"trninfer: {record.relativeCreated / 1000:.2f} s: {printable(record.getMessage())}"


def log_to_stderr(verbose: int) -> None:
    """Log nothing at verbosity 0, the main steps at 1, and each batch at 2."""
    logger = logging.getLogger("trninfer")
    for handler in [handler for handler in logger.handlers if isinstance(handler.formatter, _Lines)]:
        logger.removeHandler(handler)
    if not verbose or sys.stderr is None:
        return
    stderr_handler = logging.StreamHandler()
    stderr_handler.setFormatter(_Lines())
    logger.addHandler(stderr_handler)
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
