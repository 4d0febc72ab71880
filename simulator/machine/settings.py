"""Settings of a run of kernels. They are environment variables so that child processes of a script inherit them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

MAX_INSTRUCTIONS_VARIABLE = "TRNINFER_MAX_INSTRUCTIONS"
NO_DGE_VARIABLE = "TRNINFER_DISABLE_DGE"
MAX_INSTRUCTIONS = 2_000_000
TOO_MANY = (
    "the kernel has issued {:,} instructions and may not end; to allow more, use trninfer simulate --max-instructions N"
)


def max_instructions() -> int:
    """Return the maximum number of instructions per program."""
    text = os.environ.get(MAX_INSTRUCTIONS_VARIABLE, "")
    return int(text) if text.isdecimal() else MAX_INSTRUCTIONS


def generates_descriptors() -> bool:
    """Return True unless hardware-generated DMA descriptors are disabled."""
    return not os.environ.get(NO_DGE_VARIABLE)


@contextmanager
def changed_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables until the end of the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
