"""Steps of an import on a small network, and the values of the resulting views."""

from __future__ import annotations

import numpy as np
from trninfer.models import run_network
from trninfer.models.importing.builder import BuiltOutput, NetworkBuilder
from trninfer.models.importing.importer import Importer
from trninfer.models.importing.view import View
from trninfer.models.inputs import FeatureInput, ImageInput
from trninfer.models.outputs import Output


def importer_of(*shape: int, batch: int = 1, opset: int = 18) -> Importer:
    """Return an importer whose value `x` is the network's input, an image or features."""
    if len(shape) == 1:
        source: FeatureInput | ImageInput = FeatureInput(*shape)
    else:
        source = ImageInput(*shape, "none", (0.0,) * shape[0], (1.0,) * shape[0])
    return Importer(NetworkBuilder(source), {}, {"x": View.of("input", shape)}, set(), batch, opset)


def value_of(importer: Importer, view: View, x: np.ndarray) -> np.ndarray:
    """Return the numbers of a view for a batch of inputs, [batch, *view.shape]."""
    output = BuiltOutput("y", importer.rows(view), view.shape or (1,), Output("values"))
    network, tensors = importer.builder.finish("network", [output], None)
    return run_network(network, tensors, x).scores.reshape(len(x), *view.shape)


def numbers(*shape: int) -> np.ndarray:
    """Return a batch of two inputs with distinct numbers from -2 to 2."""
    return np.random.default_rng(len(shape)).uniform(-2, 2, (2, *shape)).astype(np.float32)
