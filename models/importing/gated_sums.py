"""Simplify gates that compare channels, as in ConvNeXt V2's global response norm.

With a number g for each channel, x + scale * (x * g) + shift becomes x * (scale * g + 1) + shift, which needs fewer
products of images. If its divisor is the same for all channels, s h / (W s h + b) becomes h * (1 / (W h + b / s)).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..checks import Shape
from ..layers import Affine, Combine, Conv2d, Layer


class GatedSums:
    """The layers in order, keyed by name, with their tensors, their shapes and the number of consumers of each."""

    def __init__(
        self,
        layers: dict[str, Layer],
        tensors: dict[str, np.ndarray],
        shapes: dict[str, Shape],
        reads: Mapping[str, int],
    ) -> None:
        self._layers, self._tensors, self._shapes, self._reads = layers, tensors, shapes, reads

    def simplify(self, layer: Layer, outputs: list[str]) -> Layer | None:
        """Return a replacement of a layer, or None if it has no simpler form. Layers that it reads may be changed."""
        if not isinstance(layer, Combine) or layer.activation != "identity":
            return None
        if layer.operation == "add":
            for x, scaled in (layer.inputs, layer.inputs[::-1]):
                product = self._as_product(layer, x, scaled, outputs)
                if product is not None:
                    return product
        return self._as_multiplication(layer, outputs) if layer.operation == "divide" else None

    def _as_product(self, layer: Combine, x: str, name: str, outputs: list[str]) -> Layer | None:
        """Return an affine map that replaces x + affine(x * g)."""
        affine = self._alone(name, outputs)
        product = self._alone(affine.inputs[0], outputs) if isinstance(affine, Affine) else None
        if not isinstance(affine, Affine) or not isinstance(product, Combine) or x not in product.inputs:
            return None
        gate = product.inputs[1 - product.inputs.index(x)]
        is_plain = product.operation == "multiply" and product.activation == affine.activation == "identity"
        is_gate = self._shapes[gate][1:] == (1, 1) and self._shapes[gate][:1] == self._shapes[x][:1] == affine.shape
        if not is_plain or not is_gate or self._shapes[x][1:] in ((), (1, 1)):
            return None
        scale, shift = (self._tensors[f"{name}.{part}"] for part in ("scale", "shift"))
        self._set(Affine(product.name, affine.shape, inputs=(gate,)), scale, np.ones_like(scale))
        self._shapes[product.name] = self._shapes[gate]
        self._layers[name] = dataclasses.replace(product, name=name, inputs=(x, product.name))
        return self._set(Affine(layer.name, affine.shape, inputs=(name,)), np.ones_like(scale), shift)

    def _as_multiplication(self, layer: Combine, outputs: list[str]) -> Layer | None:
        """Return a product that replaces a quotient whose divisor is a single number, repeated for all channels."""
        above, below = layer.inputs
        repeat = self._alone(below, outputs)
        number = self._alone(repeat.inputs[0], outputs) if isinstance(repeat, Conv2d) else None
        if not isinstance(repeat, Conv2d) or not isinstance(number, Conv2d) or number.activation != "identity":
            return None
        weight, bias = (self._tensors[f"{below}.{part}"] for part in ("weight", "bias"))
        is_repeated = repeat.in_channels == 1 and repeat.activation == "identity" and (weight == 1).all()
        if not is_repeated or bias.any() or self._shapes[number.name] != (1, 1, 1) or number.pool_size > 1:
            return None
        affine = self._layers.get(above)
        is_read_twice = self._reads[above] == 2 and above not in outputs and number.inputs == (above,)
        if is_read_twice and isinstance(affine, Affine) and self._is_constant(affine):
            scale = self._tensors[f"{above}.scale"].flat[0]
            self._tensors[f"{number.name}.bias"] = self._tensors[f"{number.name}.bias"] / scale
            above = affine.inputs[0]
            number = dataclasses.replace(number, inputs=(above,))
        self._layers[number.name] = dataclasses.replace(number, activation="reciprocal")
        return dataclasses.replace(layer, operation="multiply", inputs=(above, below))

    def _is_constant(self, affine: Affine) -> bool:
        """Return True if an affine layer multiplies all channels by the same positive number."""
        scale, shift = (self._tensors[f"{affine.name}.{part}"] for part in ("scale", "shift"))
        return affine.activation == "identity" and not shift.any() and scale.min() == scale.max() > 0

    def _set(self, affine: Affine, scale: np.ndarray, shift: np.ndarray) -> Affine:
        self._tensors |= {f"{affine.name}.scale": scale, f"{affine.name}.shift": shift}
        self._layers[affine.name] = affine
        return affine

    def _alone(self, name: str, outputs: list[str]) -> Layer | None:
        """Return the layer if it has only one consumer."""
        return self._layers.get(name) if self._reads[name] == 1 and name not in outputs else None
