"""Networks from elsewhere: ONNX files, and PyTorch state dicts in .safetensors, as networks of ours.

Reading a file executes nothing: ONNX is decoded as data and checked node by node, and no pickle is ever loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..files import check_tensors
from ..network import ModelError, Network
from ..regular_files import describe, open_regular
from ..tensor_file import read_table
from .builder import NetworkBuilder
from .onnx_file import read_onnx
from .onnx_graph import build_layers
from .onnx_runtime import Comparison, compare
from .picture import PictureOptions, network_input
from .state_dict import build_state_dict

__all__ = ["Comparison", "Imported", "PictureOptions", "import_network"]

_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Imported:
    """A network from elsewhere: its tensors (float32, by name), what it came from, and how it was checked."""

    network: Network
    tensors: dict[str, np.ndarray]
    source: str
    comparison: Comparison


def import_network(
    path: Path,
    options: PictureOptions | None = None,
    labels: tuple[str, ...] | None = None,
    activation: str = "relu",
) -> Imported:
    """Read an ONNX file or a state dict and run it beside ONNX Runtime; ModelError, one line, for what cannot be had.

    Without labels, they are the numbers of the classes. `activation` is that of a perceptron's hidden layers, which a
    state dict does not tell.
    """
    options = options or PictureOptions()
    kind = path.suffix.lower()
    if kind not in (".onnx", ".safetensors"):
        raise ModelError(_unknown(path))
    if kind == ".onnx":
        return _import_onnx(path, options, labels)
    file = read_table(path)
    if "trninfer_format" in file.metadata:
        raise ModelError(f"{path}: is a model of trninfer already; give it to --model as it is")
    try:
        builder, name = build_state_dict(file, options, activation)
        network, tensors = _finish(builder, name, labels)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return Imported(network, tensors, f"PyTorch state dict ({name})", compare(network, tensors))


def _import_onnx(path: Path, options: PictureOptions, labels: tuple[str, ...] | None) -> Imported:
    graph = read_onnx(path)
    try:
        shape = graph.input_shape[1:]
        sizes = tuple(size for size in shape if size is not None)
        if len(shape) not in (1, 3):
            raise ModelError(
                f"its input {graph.input!r} has {len(graph.input_shape)} dimensions; supported are 4 (batch, channels, "
                "height, width) and 2 (batch, features)"
            )
        if len(sizes) != len(shape):
            raise ModelError(
                f"its input {graph.input!r} has sizes that are not fixed: export it with fixed ones, but for the batch"
            )
        builder = NetworkBuilder(network_input(sizes, options))
        build_layers(graph, builder)
        network, tensors = _finish(builder, path.stem, labels)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return Imported(network, tensors, f"ONNX, opset {graph.opset}", compare(network, tensors, path, graph))


def _finish(
    builder: NetworkBuilder, name: str, labels: tuple[str, ...] | None
) -> tuple[Network, dict[str, np.ndarray]]:
    network, tensors = builder.finish(name, labels)
    check_tensors(network, tensors)
    return network, tensors


def _unknown(path: Path) -> str:
    """Why a file that is neither of the two formats is not read."""
    try:
        with open_regular(path) as file:
            start = file.read(4)
    except (OSError, ValueError) as error:
        return f"{path}: {describe(error)}"
    if start.startswith(_PICKLE_STARTS):
        return (
            f"{path}: a pickle, which is a program and never loaded; save the state dict with "
            "safetensors.torch.save_file, or export the model to ONNX"
        )
    return f"{path}: neither .onnx nor .safetensors"
