"""Operations on layers that are keyed by name: renaming inputs, finding unused names, and selecting the layers that
outputs need."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from ..layers import Layer


def reading(layer: Layer, renamed: Mapping[str, str]) -> Layer:
    """Return a layer with renamed inputs."""
    inputs = tuple(renamed.get(read, read) for read in layer.inputs)
    return layer if inputs == layer.inputs else dataclasses.replace(layer, inputs=inputs)


def needed(layers: Mapping[str, Layer], outputs: Iterable[str]) -> dict[str, Layer]:
    """Return the layers on which the outputs depend."""
    needed_names = set(outputs)
    for name in reversed(tuple(layers)):
        if name in needed_names:
            needed_names.update(layers[name].inputs)
    return {name: layer for name, layer in layers.items() if name in needed_names}


def free_name(name: str, taken: Collection[str]) -> str:
    """Return an unused name: the given name, followed by as many primes as necessary."""
    while name in taken:
        name += "'"
    return name
