"""The options that classify and ffnn share, but not the other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .errors import UsageError

TopKOption = Annotated[
    Optional[int],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
    typer.Option(
        "--top-k", min=1, metavar="K", help="The most probable labels of each input. [default: 5]", show_default=False
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from what an interrupted run with the same options left in --output.")
]


def check_resume(resume: bool, output: Path | None, verify: bool) -> None:
    """UsageError where options do not go with --resume."""
    if resume and output is None:
        raise UsageError("--resume goes on from the answers in a file; it needs --output FILE")
    if resume and verify:
        raise UsageError("--resume and --verify exclude each other: earlier answers would go unchecked")
