"""How many images lie side by side on the partitions, in the input and in what each layer gives."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.tiling.packing import PARTITIONS
from ...models.checks import Shape
from .layout import leaves
from .memory import PSUM_COLUMNS
from .program import CONVOLUTIONS, NORMS, Planned

MAX_TOGETHER = 16  # images side by side


def choices_of(layers: Sequence[Planned], image: Shape, batch: int) -> list[int]:
    """How many images may lie side by side in the input, more than one. Features are transposed."""
    if image[1:] == (1, 1):
        return []
    choices = [2**n for n in range(1, MAX_TOGETHER.bit_length()) if 2**n < 4 * batch]
    return [together for together in choices if _goes(layers, image[0], together)]


def _goes(layers: Sequence[Planned], channels: int, together: int) -> bool:
    """Whether so many images fit side by side in the input, and in what each layer gives."""
    if together * max(channels, layers[0].channels) > PARTITIONS:
        return False
    given = togethers(layers, together)
    for layer, of_output in zip(layers, given):
        of_input = [together if part < 0 else given[part] for parts in layer.sources for part in parts]
        if of_input[0] > 1 and layer.kind in NORMS and len(leaves(layers, layer.sources[0], channels)) > 1:
            return False
        if of_input[0] > 1 and layer.channels > PARTITIONS and layer.channels % PARTITIONS:
            return False
        if layer.kind == "scores" and of_input[0] * layer.channels > PSUM_COLUMNS:
            return False
        if layer.kind not in CONVOLUTIONS and any(each != of_output for each in of_input):
            return False
        if any(each != of_input[0] for each in of_input[: len(layer.sources[0])]):
            return False
        if any(each != of_output for each in of_input[len(layer.sources[0]) :]):
            return False
    return True


def togethers(layers: Sequence[Planned], together: int) -> list[int]:
    """Images side by side in what each layer gives: never more than in what it reads, and as many in all layers whose
    channels stand one after another."""
    most = [together] * len(layers)
    while True:
        given = _given(layers, together, most)
        fewest = list(given)
        for parts in (parts for layer in layers for parts in layer.sources if len(parts) > 1):
            least = min(together if part < 0 else fewest[part] for part in parts)
            for part in parts:
                if part >= 0:
                    fewest[part] = least
        if fewest == given:
            return given
        most = fewest


def _given(layers: Sequence[Planned], together: int, most: Sequence[int]) -> list[int]:
    """Images side by side in what each layer gives, at most so many."""
    given: list[int] = []
    for layer, own in zip(layers, most):
        part = layer.sources[0][0]
        own = min(own, together if part < 0 else given[part])
        while layer.kind != "scores" and own > 1 and own * layer.channels > PARTITIONS:
            own //= 2
        given.append(own)
    return given
