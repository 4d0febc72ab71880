"""How many images lie side by side on the partitions, in the input and in what each layer gives."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.tiling.packing import PARTITIONS
from ...models.network import Shape
from .memory import PSUM_COLUMNS
from .program import CONVOLUTIONS, Planned

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
        if any(len(parts) > 1 for parts in layer.sources) and max(of_input) > 1:
            return False
        grouped = layer.groups > 1 and layer.kind in CONVOLUTIONS
        if of_input[0] > 1 and (grouped or (layer.channels > PARTITIONS and layer.channels % PARTITIONS)):
            return False
        if layer.kind == "scores" and of_input[0] * layer.channels > PSUM_COLUMNS:
            return False
        if layer.kind not in CONVOLUTIONS and any(each != of_output for each in of_input):
            return False
        if any(each != of_output for each in of_input[1:]):
            return False
    return True


def togethers(layers: Sequence[Planned], together: int) -> list[int]:
    """Images side by side in what each layer gives: never more than in what it reads."""
    given: list[int] = []
    for layer in layers:
        part = layer.sources[0][0]
        most = together if part < 0 else given[part]
        while layer.kind != "scores" and most > 1 and most * layer.channels > PARTITIONS:
            most //= 2
        given.append(most)
    return given
