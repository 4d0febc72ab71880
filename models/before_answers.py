"""Networks without the functions that squeeze their outputs: where those saturate, they hide any difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .layers import Layer
from .network import Network

SATURATING = ("sigmoid", "hardsigmoid", "tanh")


def squeezed_outputs(network: Network) -> dict[str, str]:
    """Return the layers that compute outputs and end in a function that saturates, by name, with that function.

    Layers that others read are left out.
    """
    readers = network.readers()
    found = {}
    for layer in network.layers:
        function = getattr(layer, "activation", "")
        is_output = any(named.layer == layer.name for named in network.named_outputs)
        if is_output and function in SATURATING and not readers.get(layer.name, 0):
            found[layer.name] = function
    return found


def without_squeezing(network: Network, names: Mapping[str, str]) -> Network:
    """Return the network with the functions of some layers left out."""
    layers = tuple(_linear(layer) if layer.name in names else layer for layer in network.layers)
    return replace(network, layers=layers)


def _linear(layer: Layer) -> Layer:
    return replace(layer, activation="identity", activation_parameters=())  # type: ignore[call-arg]
