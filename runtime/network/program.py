"""The layers of a network as the kernel that runs them in one launch takes them, before they are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...models.checks import Shape

Parts = tuple[int, ...]  # layers whose channels stand one after another; -1 is the input

CONVOLUTIONS = ("conv2d", "scores")
NORMS = ("layer_norm", "group_norm")


@dataclass(frozen=True)
class KernelLayer:
    """What the kernel is told of a layer: the fields of `kernels.networks.layers.ProgramLayer` in their order, but for
    the rows and columns that it gives, which `Planned.after` has.
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


@dataclass(frozen=True)
class Planned(KernelLayer):
    """One layer of the program, and what is known of it on the host."""

    shown: str = ""  # the kind as the table has it
    told: tuple[Shape, Shape] = ((), ())  # what it reads and gives, as the table has it
    before: Shape = ()  # what its parts give, read or not
    after: Shape = ()
    filters: np.ndarray | None = None  # [Cout, Cin / groups, kh, kw]
    numbers: tuple[np.ndarray, ...] = ()  # the bias of a convolution; scale and shift of an affine

    @property
    def is_depthwise(self) -> bool:
        """Whether it is a convolution by filters for each channel."""
        return self.groups == self.channels == self.before[0] > 1

    def fields(self) -> tuple[Any, ...]:
        """What the kernel is told, with the rows and columns after the channels."""
        values = [getattr(self, name) for name in _FIELDS]
        return (*values[:4], *self.after[1:], *values[4:])


_FIELDS = tuple(field.name for field in fields(KernelLayer))


class DoesNotFit(ValueError):  # noqa: N818 (a finding, after which the network runs layer by layer)
    """Why a network is not one launch; the message is a clause for the user."""


def readers_of(layers: Sequence[Planned], number: int) -> list[tuple[int, Parts]]:
    """What reads a layer, or the input: of each of a reader's sources that it is among, the reader's number and the
    source's parts."""
    return [(n, parts) for n, layer in enumerate(layers) for parts in layer.sources if number in parts]


def behind(first: Planned, layers: Sequence[Planned]) -> list[Planned]:
    """Layers that read what one layer more gives in place of the input."""
    moved = [tuple(tuple(part + 1 for part in parts) for parts in layer.sources) for layer in layers]
    return [first, *(replace(layer, sources=sources) for layer, sources in zip(layers, moved))]
