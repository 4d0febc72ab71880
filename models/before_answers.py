"""Remove saturating functions at the end of networks, which would hide differences between outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .layers import Layer
from .network import Network

SATURATING = ("sigmoid", "hardsigmoid", "tanh")


def squeezed_outputs(network: Network) -> dict[str, str]:
    """Return the saturating functions of the layers that compute outputs, keyed by layer name.

    Layers that are read by other layers are excluded.
    """
    readers = network.readers()
    functions = {}
    for layer in network.layers:
        function = getattr(layer, "activation", "")
        is_output = any(output.layer == layer.name for output in network.named_outputs)
        if is_output and function in SATURATING and not readers.get(layer.name, 0):
            functions[layer.name] = function
    return functions


def without_squeezing(network: Network, names: Mapping[str, str]) -> Network:
    """Return the network without the activations of the given layers."""
    layers = tuple(_linear(layer) if layer.name in names else layer for layer in network.layers)
    return replace(network, layers=layers)


def _linear(layer: Layer) -> Layer:
    return replace(layer, activation="identity", activation_parameters=())  # type: ignore[call-arg]
