"""Networks from elsewhere: ONNX files, and PyTorch state dicts in .safetensors, as networks of ours.

Reading a file executes nothing: ONNX is decoded as data and checked node by node, and no pickle is ever loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import ModelError
from ..files import check_tensors
from ..network import Network
from ..outputs import Output
from ..regular_files import describe, open_regular
from ..tensor_file import read_table
from .builder import BuiltOutput
from .onnx_cut import cut_graph
from .onnx_file import Graph, read_onnx
from .onnx_graph import Walk, unsupported
from .onnx_input import graph_input
from .onnx_runtime import Comparison, ImportedGraph, RejectedError, compare
from .picture import PreprocessingOptions, assumed
from .state_dict import build_state_dict

__all__ = ["Comparison", "ImportOptions", "Imported", "PreprocessingOptions", "import_network"]

_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class ImportOptions:
    """What the user told of the network; None for what was not told.

    `output_names`: the values of an ONNX graph to be the outputs; without, all that can be. `output_kind`: what the
    leading output means ("classes", "sigmoid" or "values"). `activation`, `layers`: of a state dict, see
    `state_dict.py`. `unchecked`: also a file that ONNX Runtime does not run.
    """

    output_names: tuple[str, ...] = ()
    output_kind: str | None = None
    activation: str | None = None
    layers: str | None = None
    unchecked: bool = False


@dataclass(frozen=True)
class Imported:
    """A network from elsewhere: its tensors (float32, by name), what it came from, and how it was checked.

    `notes` is what had to be assumed, or is other than in the file, each in words.
    """

    network: Network
    tensors: dict[str, np.ndarray]
    source: str
    comparison: Comparison
    notes: tuple[str, ...] = ()


def import_network(
    path: Path,
    pictures: PreprocessingOptions | None = None,
    labels: tuple[str, ...] | None = None,
    options: ImportOptions | None = None,
) -> Imported:
    """Read an ONNX file or a state dict; ModelError, one line, for what cannot be had.

    An ONNX file is run beside ONNX Runtime. Without labels, they are the numbers of the classes.
    """
    pictures, options = pictures or PreprocessingOptions(), options or ImportOptions()
    kind = path.suffix.lower()
    if kind not in (".onnx", ".safetensors"):
        raise ModelError(_unknown(path))
    if kind == ".onnx":
        graph = read_onnx(path)
        try:
            return _import_onnx(path, graph, pictures, labels, options)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
    file = read_table(path)
    if "trninfer_format" in file.metadata:
        raise ModelError(f"{path}: is a model of trninfer already; give it to --model as it is")
    if options.output_names:
        raise ModelError(f"{path}: a state dict has one output; --output-name is for ONNX files")
    try:
        built = build_state_dict(file, pictures, options.activation, options.layers)
        output = Output(options.output_kind) if options.output_kind in ("sigmoid", "values") else built.output
        shape = built.builder.shapes[built.last]
        outputs = [BuiltOutput("output", built.last, shape, output)]
        network, tensors = built.builder.finish(built.name, outputs, labels)
        check_tensors(network, tensors)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    checked = Comparison("a state dict holds weights alone, with nothing to compare the answers to")
    notes = (*built.notes, *assumed(network.input, pictures))
    return Imported(network, tensors, f"PyTorch state dict ({built.name})", checked, notes)


def _import_onnx(
    path: Path, graph: Graph, pictures: PreprocessingOptions, labels: tuple[str, ...] | None, options: ImportOptions
) -> Imported:
    part = cut_graph(graph, options.output_names)
    try:
        source = graph_input(graph, part, pictures)
    except ModelError as error:
        more = unsupported(graph, part)
        raise ModelError(f"{error}; besides, {more}" if more else str(error)) from None
    walk = Walk(graph, part, source)
    outputs = walk.run()
    leading = outputs[0].output
    if options.output_kind and options.output_kind != leading.kind:
        leading = Output(options.output_kind, "raw" if options.output_kind == "classes" else "")
        outputs[0] = replace(outputs[0], output=leading)
    network, tensors = walk.importer.builder.finish(path.stem, outputs, labels)
    check_tensors(network, tensors)
    notes = [*part.notes, *walk.importer.notes]
    names = tuple(built.name for built in outputs)
    try:
        comparison = compare(ImportedGraph(path, graph, part, source, network, tensors, names, tuple(notes)))
    except RejectedError as error:
        if not options.unchecked:
            raise ModelError(f"{error}; --unchecked imports it all the same") from None
        comparison = Comparison(str(error))
    made_by = f" by {graph.made_by}" if graph.made_by else ""
    for each in source.parts:
        notes += [note for note in assumed(each.input, pictures, each.inner) if note not in notes]
    return Imported(network, tensors, f"ONNX, opset {graph.opset}{made_by}", comparison, tuple(notes))


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
