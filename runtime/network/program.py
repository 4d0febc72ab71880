"""The layers of a network as the kernel that runs them in one launch takes them, before they are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...models.network import Shape

Parts = tuple[int, ...]  # layers whose channels stand one after another; -1 is the input

CONVOLUTIONS = ("conv2d", "scores")


@dataclass(frozen=True)
class Planned:
    """One layer of the program, by the names of `kernels.networks.layers.Layer`'s fields.

    Filters are [Cout, Cin / groups, kh, kw], `bias` a number for each output; `columns_of` the numbers of an affine.
    """

    kind: str
    name: str
    sources: tuple[Parts, ...]
    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pool_size: int = 1
    activation: str = "identity"
    parameters: tuple[float, ...] = ()
    groups: int = 1
    operation: str = ""
    weights: int = 0
    constants: int = 0
    taps: tuple[int, int, int] = (1, 1, 1)
    together: int = 1
    margin: tuple[int, int, int, int] = (0, 0, 0, 0)
    count_include_pad: bool = False
    ceil_mode: bool = False
    softmax: str = ""
    in_hbm: bool = False
    stays: bool = False
    group_bytes: int = 0
    blank: tuple[int, int, int] = (0, 0, 1)
    unfold: int = 1
    form: str = "direct"
    fold: tuple[int, int, int] = (0, -1, 0)
    copies: tuple[int, int, int] = (1, 0, 0)
    shown: str = ""  # the kind as the table has it
    told: tuple[Shape, Shape] = ((), ())  # what it reads and gives, as the table has it
    before: Shape = ()  # what its parts give, read or not
    after: Shape = ()
    filters: np.ndarray | None = None
    numbers: tuple[np.ndarray, ...] = ()  # the bias of a convolution; scale and shift of an affine

    def fields(self) -> tuple[Any, ...]:
        """What the kernel is told."""
        return (
            self.kind,
            self.name,
            self.sources,
            self.channels,
            self.after[1],
            self.after[2],
            self.kernel,
            self.stride,
            self.dilation,
            self.padding,
            self.pool_size,
            self.activation,
            self.parameters,
            self.groups,
            self.operation,
            self.weights,
            self.constants,
            self.taps,
            self.together,
            self.margin,
            self.count_include_pad,
            self.ceil_mode,
            self.softmax,
            self.in_hbm,
            self.stays,
            self.group_bytes,
            self.blank,
            self.unfold,
            self.form,
            self.fold,
            self.copies,
        )


class DoesNotFit(ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Why a network is not one launch; the message is a clause for the user."""


def behind(first: Planned, layers: Sequence[Planned]) -> list[Planned]:
    """Layers that read what one layer more gives in place of the input."""
    moved = [tuple(tuple(part + 1 for part in parts) for parts in layer.sources) for layer in layers]
    return [first, *(replace(layer, sources=sources) for layer, sources in zip(layers, moved))]
