"""Options of a bench that accept several values; every combination of the values is timed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, get_args

import typer

from ...runtime.launch_options import Dtype, Target
from ..errors import UsageError
from ..option_groups import whole
from ..options import RunOptions

DTYPES = get_args(Dtype)
TARGETS = get_args(Target)
MOST = 256  # maximum number of combinations

Values = tuple[Any, ...]


def several(read: Callable[[str], Any]) -> Callable[[str | Values], Values]:
    """Return a parser for comma-separated values that removes duplicates."""

    def read_all(text: str | Values) -> Values:
        if isinstance(text, tuple):  # a default value
            return text
        return tuple(dict.fromkeys(read(part) for part in text.split(",")))

    return read_all


def picture_size(text: str) -> tuple[int, int]:
    """Parse `224` or `160x320` as (height, width)."""
    match = re.fullmatch(r"([0-9]{1,5})(?:x([0-9]{1,5}))?", text)
    height, width = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not height or not width:
        raise typer.BadParameter(f"{text!r} is not a picture size, such as 224 or 160x320.")
    return height, width


def one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return a parser that accepts one of the given words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, allowed))}.")
        return text

    return read


def microseconds(text: str | None) -> float | None:
    """Parse `100us`, `1.5ms` or `0.2s` as microseconds."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(us|\u00b5s|ms|s)\s*", text, re.ASCII)
    units = {"us": 1.0, "\u00b5s": 1.0, "ms": 1e3, "s": 1e6}
    value = float(match[1]) * units[match[2]] if match else 0.0
    if not match or not 0 < value < math.inf:
        raise UsageError(f"--latency-limit {text!r}: expected a time with its unit, such as 100us or 1.5ms")
    return value


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep. `dtype`, `batch_size` and `target` hold their values in the given order."""

    dtype: Annotated[
        Any,
        typer.Option(
            "--dtype",
            parser=several(one_of(DTYPES)),
            metavar="|".join(DTYPES),
            help="Dtype of weights and activations; sums are always float32. Several comma-separated values are timed "
            "one after the other.",
        ),
    ] = ("float32",)
    batch_size: Annotated[
        Any,
        typer.Option(
            "--batch-size",
            parser=several(whole(1, 65536)),
            metavar="N,...",
            help=(
                "Number of inputs per launch, up to 65536. Several comma-separated values are timed one after the "
                "other."
            ),
        ),
    ] = (1,)
    target: Annotated[
        Any,
        typer.Option(
            "--target",
            parser=several(one_of(TARGETS)),
            metavar="|".join(TARGETS),
            help="NeuronCore to simulate, or to compile for. Several comma-separated values are compared. "
            "[default: NEURON_PLATFORM_TARGET_OVERRIDE, else the chip in use, else trn2]",
        ),
    ] = None
    input_size: Annotated[
        Any,
        typer.Option(
            "--input-size",
            parser=several(picture_size),
            metavar="N|HxW,...",
            help="Height and width of pictures, if the ONNX file does not fix them. Several comma-separated values "
            "are timed one after the other.",
        ),
    ] = None
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            parser=whole(1, 4096),
            metavar="N",
            help="Also predict the throughput of N NeuronCores that run separate batches and share HBM.",
        ),
    ] = None
    latency_limit: Annotated[
        str | None,
        typer.Option(
            "--latency-limit",
            metavar="TIME",
            help="Find the batch size with the highest throughput within this latency, such as 100us or 1.5ms.",
        ),
    ] = None

    @property
    def is_sweep(self) -> bool:
        """Return True if there are several combinations, or if one of the options requires a sweep."""
        count = len(self.dtype) * len(self.batch_size) * len(self.target or (None,))
        return count > 1 or self.input_size is not None or self.latency_limit is not None or self.cores is not None

    def first(self, options: RunOptions) -> RunOptions:
        """Return the options with the first value of each sweep option."""
        return next(self.combinations(options))

    def combinations(self, options: RunOptions) -> Iterator[RunOptions]:
        """Yield the options of every combination; the batch size varies fastest. Raises UsageError if there are too
        many combinations."""
        targets = self.target or (options.target,)
        if len(self.dtype) * len(self.batch_size) * len(targets) > MOST:
            raise UsageError(f"at most {MOST} combinations of --batch-size, --target and --dtype are supported")
        for target, dtype, batch in product(targets, self.dtype, self.batch_size):
            yield replace(options, target=target, dtype=dtype, batch_size=batch)
