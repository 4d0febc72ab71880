"""Import of networks from ONNX files and from PyTorch state dicts in .safetensors files.

Reading a file never executes code: ONNX is decoded as data and checked node by node, and no pickle is ever loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import ModelError
from ..files import check_tensors
from ..inputs import ImageInput
from ..network import Network
from ..outputs import Output
from ..tensor_file import read_table
from .box_heads import FoundBoxes, find_head, note_on_tables, note_on_values
from .box_spec import BoxSpec, parse_boxes
from .box_units import fit_to_values, with_code
from .builder import MAX_NAME, BuiltOutput
from .class_values import are_classes, fit_to_scores, leading_output, note_on_features, true_notes
from .map_outputs import WHOLE_PICTURES, as_map, is_channels_last, looks_like_map, note_on_maps
from .onnx_cut import Cut, cut_graph
from .onnx_file import Graph, read_onnx, unpacked
from .onnx_graph import Walk, unsupported
from .onnx_input import GraphSource, graph_input
from .onnx_runtime import Comparison, ImportedGraph, RejectedError, compare
from .onnx_selection import SUPPRESSION, outputs_before_selection, selected_as_in
from .picture import PreprocessingOptions, assumed
from .properties import EMPTY, Properties, read_beside_network
from .refused import refuse
from .state_dict import build_state_dict
from .ultralytics_file import UltralyticsFile, read_ultralytics

__all__ = ["Comparison", "ImportOptions", "Imported", "PreprocessingOptions", "import_network", "parse_boxes"]


@dataclass(frozen=True)
class ImportOptions:
    """The user's import options; options that were not given are None.

    `output_names`: the values of an ONNX graph to use as outputs, by default all suitable ones. `output_kind`: the
    meaning of the primary output ("classes", "sigmoid", "values" or "map"). `boxes`: how to interpret the boxes of a
    detector. `activation` and `layers`: options for state dicts; see `state_dict.py`. `unchecked`: accept a file that
    ONNX Runtime cannot run. `preprocessor`: the file or folder that describes the preprocessing and the classes, to be
    used instead of the files next to the network. `ignores_beside`: whether to ignore the files next to the network.
    """

    output_names: tuple[str, ...] = ()
    output_kind: str | None = None
    boxes: BoxSpec | None = None
    activation: str | None = None
    layers: str | None = None
    unchecked: bool = False
    preprocessor: Path | None = None
    ignores_beside: bool = False


@dataclass(frozen=True)
class Imported:
    """An imported network: its tensors (float32, keyed by name), its origin, and the result of the check.

    `notes` contains messages about differences from the file, and `assumed` contains messages about preprocessing
    settings that neither the file nor the user specified. `labels_from` is the source of the labels of the primary
    output, or empty if the classes are numbered. `file_name` is the name of the file. `input_name` and `output_name`
    are the names of the single input and the primary output of an ONNX graph.
    """

    network: Network
    tensors: Mapping[str, np.ndarray]
    source: str
    comparison: Comparison
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    labels_from: str = ""
    file_name: str = ""
    input_name: str = ""
    output_name: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata to store in a model file of this network."""
        found = {"imported_from": f"{self.source}, {self.file_name}", "notes": json.dumps(self.notes)}
        found |= {"input_name": self.input_name} if self.input_name else {}
        found |= {"output_name": self.output_name} if self.output_name else {}
        return {**found, "assumed": json.dumps(self.assumed)} if self.assumed else found


def import_network(
    path: Path,
    pictures: PreprocessingOptions | None = None,
    labels: tuple[str, ...] | None = None,
    options: ImportOptions | None = None,
) -> Imported:
    """Import an ONNX file or a state dict; raise ModelError with a one-line message if that is not possible.

    The network of an ONNX file is compared with ONNX Runtime. Without `labels`, the labels are read from
    files next to the network or from the file itself; if there are none, the classes are numbered.
    """
    pictures, options = pictures or PreprocessingOptions(), options or ImportOptions()
    kind = path.suffix.lower()
    if kind == ".gz" and path.stem.lower().endswith(".onnx"):
        kind = ".onnx"
    if kind not in (".onnx", ".safetensors"):
        raise ModelError(refuse(path))
    beside, notes = (EMPTY, []) if options.ignores_beside else read_beside_network(path, options.preprocessor)
    properties = Properties(pictures.over(beside.pictures), labels, beside, tuple(notes))
    if kind == ".onnx":
        with unpacked(path) as whole:
            return replace(_read_and_import(path, whole, properties, options), file_name=path.name)
    file = read_table(path)
    if "trninfer_format" in file.metadata:
        raise ModelError(f"{path}: already a trninfer model; pass it to --model without importing it")
    if options.output_names:
        raise ModelError(f"{path}: --output-name requires an ONNX file, because a state dict has only one output")
    if options.boxes is not None:
        raise ModelError(
            f"{path}: --boxes requires an ONNX file, because state dicts describe classifiers without boxes"
        )
    try:
        built = build_state_dict(file, properties.pictures, options.activation, options.layers)
        output = Output(options.output_kind) if options.output_kind in ("sigmoid", "values") else built.output
        shape = built.builder.shapes[built.last]
        outputs = [BuiltOutput("output", built.last, shape, output)]
        found, labels_from = properties.labels_of(outputs[0], None)
        network, tensors = built.builder.finish(built.name, outputs, found)
        check_tensors(network, tensors)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    checked = Comparison("a state dict contains only weights, so there is no reference to compare with")
    supposed = tuple(assumed(network.input, properties.pictures))
    source = f"PyTorch state dict ({built.name})"
    return Imported(
        network=network,
        tensors=tensors,
        source=source,
        comparison=checked,
        notes=(*properties.notes, *built.notes),
        assumed=supposed,
        labels_from=labels_from,
        file_name=path.name,
    )


def _read_and_import(path: Path, file: Path, properties: Properties, options: ImportOptions) -> Imported:
    """Import the ONNX file `path`, whose uncompressed content is in `file`."""
    try:
        graph = read_onnx(file)
    except ModelError as error:
        raise ModelError(str(error).replace(str(file), str(path))) from None
    try:
        return _import_onnx(file, graph, properties, options)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _find_boxes(
    outputs: list[BuiltOutput], source: GraphSource, spec: BoxSpec | None, labels: Sequence[str] | None
) -> FoundBoxes | None:
    """Return the outputs of a detector, or None if the network is not a detector."""
    if isinstance(source.input, ImageInput):
        size = (source.input.height, source.input.width)
        return find_head(outputs, size, spec, None if labels is None else len(labels))
    if spec is not None:
        raise ModelError("boxes require a network whose only input is an image")
    return None


class _Meaning(NamedTuple):
    """The outputs of a graph (the primary one first), its inputs, the known properties, and notes on boxes.

    `guessed` is the kind of boxes that were recognised by their shape alone.
    """

    outputs: list[BuiltOutput]
    source: GraphSource
    properties: Properties
    notes: list[str]
    guessed: BoxSpec | None = None


def _walk(graph: Graph, part: Cut, properties: Properties) -> Walk:
    """Return a walk over the nodes of a cut; raise ModelError if its inputs are not supported."""
    try:
        return Walk(graph, part, graph_input(graph, part, properties.pictures))
    except ModelError as error:
        more = unsupported(graph, part)
        raise ModelError(f"{error}; besides, {more}" if more else str(error)) from None


def _decide_outputs(
    walk: Walk,
    graph: Graph,
    part: Cut,
    exporter: UltralyticsFile | None,
    properties: Properties,
    options: ImportOptions,
) -> _Meaning:
    """Determine the meaning of the outputs from the options, the exporter, or else their last layers and shapes."""
    is_guessed = options.output_kind is None
    spec = options.boxes or (exporter.boxes if exporter is not None and is_guessed else None)
    outputs, source = walk.run(), walk.source
    found = None
    if spec is not None or (is_guessed and exporter is None):
        labels = properties.labels if exporter is None else exporter.names
        found = _find_boxes(outputs, source, spec, labels)
    if found is not None:
        notes = found.notes(properties.labels)
        if spec is not None:
            return _Meaning(found.outputs, source, properties, notes)
        # The kind was guessed, so use the usual preprocessing for that kind.
        usual = found.spec.pictures.for_channels(source.input.shape[0])
        properties = properties.with_pictures(replace(usual, is_beside=True))
        return _Meaning(found.outputs, _read_again(walk, graph, part, properties), properties, notes, found.spec)
    if options.output_kind == "map" or (is_guessed and looks_like_map(walk.importer, outputs, source.input)):
        outputs = as_map(walk.importer, outputs, source.input, is_guessed)
        properties = properties.with_pictures(WHOLE_PICTURES)
        return _Meaning(outputs, _read_again(walk, graph, part, properties), properties, [])
    outputs[0] = replace(outputs[0], output=leading_output(outputs[0], graph, options.output_kind))
    return _Meaning(outputs, source, properties, _notes_on_shapes(walk, outputs) if is_guessed else [])


def _notes_on_shapes(walk: Walk, outputs: list[BuiltOutput]) -> list[str]:
    """Return a note if the shapes of the outputs suggest a meaning that was not recognised."""
    source = walk.source.input
    note = note_on_tables(outputs) or note_on_maps(walk.importer, outputs, source) or note_on_features(outputs[0])
    return [note] if note else []


def _read_again(walk: Walk, graph: Graph, part: Cut, properties: Properties) -> GraphSource:
    """Read the inputs of a graph again after its preprocessing has changed, and update the builder's input."""
    source = graph_input(graph, part, properties.pictures)
    walk.importer.builder.input = source.input
    return source


def _exporter_and_outputs(graph: Graph, wanted: tuple[str, ...]) -> tuple[UltralyticsFile | None, tuple[str, ...]]:
    """Return the metadata that Ultralytics wrote to a file, and the outputs to import: by default, the outputs before
    boxes are selected."""
    exporter = read_ultralytics(graph.metadata)
    if exporter is None:
        selects_boxes = any(node.op in SUPPRESSION for node in graph.nodes)
    else:
        selects_boxes = exporter.boxes is not None and exporter.selects_boxes
    if wanted or not selects_boxes:
        return exporter, wanted
    wanted = outputs_before_selection(graph)
    return None if exporter is None else replace(exporter, has_all_rows=bool(wanted)), wanted


def _compare(imported: ImportedGraph, unchecked: bool) -> Comparison:
    """Compare an import with ONNX Runtime; if the outputs differ, raise ModelError unless `unchecked`."""
    try:
        return compare(imported)
    except RejectedError as error:
        if not unchecked:
            raise ModelError(f"{error}; --unchecked skips this check") from None
        return Comparison(str(error))


class _Draft(NamedTuple):
    """A network that was built from a graph, before its outputs are compared with ONNX Runtime."""

    imported: ImportedGraph
    walk: Walk
    meaning: _Meaning
    exporter: UltralyticsFile | None
    labels_from: str
    notes: tuple[str, ...]


def _draft(path: Path, graph: Graph, properties: Properties, options: ImportOptions) -> _Draft:
    exporter, wanted = _exporter_and_outputs(graph, options.output_names)
    part = cut_graph(graph, wanted)
    specified = options.boxes or exporter
    if specified is not None:
        properties = properties.with_pictures(specified.pictures)
    walk = _walk(graph, part, properties)
    meaning = _decide_outputs(walk, graph, part, exporter, properties, options)
    if wanted and not options.output_names:
        if meaning.outputs[0].output.kind != "boxes":
            raise ModelError(unsupported(graph, cut_graph(graph, ())))
        meaning = meaning._replace(outputs=selected_as_in(graph, meaning.outputs, options.boxes))
    outputs, source, known = meaning.outputs, meaning.source, meaning.properties
    labels, labels_from = known.labels_of(outputs[0], graph)
    network, tensors = walk.importer.builder.finish(path.stem, outputs, labels)
    walk.check(network, tensors)
    imported = ImportedGraph(
        path=path,
        graph=graph,
        part=part,
        source=source,
        network=network,
        tensors=tensors,
        names=tuple(built.name for built in outputs),
        mixes_inputs=walk.importer.mixes_inputs,
        is_quantized=walk.importer.is_quantized,
        map_is_last=is_channels_last(outputs[0], source.input),
    )
    notes = (*known.notes, *part.notes, *walk.importer.notes, *meaning.notes)
    return _Draft(imported, walk, meaning, exporter, labels_from, notes)


def _import_onnx(path: Path, graph: Graph, properties: Properties, options: ImportOptions) -> Imported:
    """Import a graph. If its values contradict the guessed meaning of its outputs, import it again with another one."""
    draft = _draft(path, graph, properties, options)
    comparison = _compare(draft.imported, options.unchecked)
    doubt = draft.walk.importer.doubt
    if comparison.skipped and doubt and not options.unchecked:
        raise ModelError(
            f"{doubt}, so it must be compared with ONNX Runtime, but {comparison.skipped}; export the network for a "
            "batch of one, or use --unchecked"
        )
    values = comparison.outputs[0] if comparison.outputs else None
    if options.output_kind is None and are_classes(draft.meaning.outputs[0], values, draft.notes):
        return _import_onnx(path, graph, properties, replace(options, output_kind="classes"))
    again = _settled(draft.meaning, comparison, options)
    if again is not None:
        imported = _import_onnx(path, graph, properties, again)
        return replace(imported, notes=(*imported.notes, *_notes_after(again, draft.meaning)))
    return _finished(draft, comparison, options)


def _finished(draft: _Draft, comparison: Comparison, options: ImportOptions) -> Imported:
    """Return an import whose primary output fits its values."""
    network, source, graph = draft.imported.network, draft.meaning.source, draft.imported.graph
    output, names, kind = network.output, draft.imported.names, options.output_kind
    values = comparison.outputs[0] if comparison.outputs else None
    if output.kind == "classes" and kind in (None, "classes"):
        output = fit_to_scores(output, names[0], values, kind is None)
    if draft.exporter is not None and draft.exporter.has_all_rows:
        output = with_code(output, draft.meaning.outputs[0].shape, values)
    pictures = draft.meaning.properties.pictures
    supposed = [note for part in source.parts for note in assumed(part.input, pictures, part.inner)]
    return Imported(
        network=replace(network, output=output),
        tensors=draft.imported.tensors,
        source=" by ".join(filter(None, [f"ONNX, opset {graph.opset}", graph.made_by])),
        comparison=comparison,
        notes=(*true_notes(draft.notes, output), *comparison.notes),
        assumed=tuple(dict.fromkeys(supposed)),
        labels_from=draft.labels_from,
        input_name=_plain(source.parts[0].name) if len(source.parts) == 1 else "",
        output_name=_plain(names[0]),
    )


def _settled(meaning: _Meaning, comparison: Comparison, options: ImportOptions) -> ImportOptions | None:
    """Return the options for a second import of guessed boxes, or None if the values agree with the guess."""
    head = meaning.outputs[0].output.boxes
    if head is None or meaning.guessed is None:
        return None
    found = [
        (built.name, None if values is None else values[0].reshape(built.shape))
        for built, values in zip(meaning.outputs, comparison.outputs)
    ]
    source = meaning.source.input
    assert isinstance(source, ImageInput)
    fitted = fit_to_values(head, found, (source.height, source.width))
    if fitted == head:
        return None
    if fitted is None:
        return replace(options, output_kind="values")
    pictures = replace(meaning.guessed.pictures.for_channels(source.channels), is_beside=True)
    return replace(options, boxes=BoxSpec(vars(fitted), pictures, meaning.guessed.name))


def _notes_after(again: ImportOptions, meaning: _Meaning) -> list[str]:
    """Return the notes on boxes from the second import."""
    if again.boxes is not None or meaning.guessed is None:
        return meaning.notes
    return [note_on_tables(meaning.outputs) or note_on_values(meaning.outputs[0], meaning.guessed)]


def _plain(name: str) -> str:
    """Return the name of a tensor if it is short and printable, otherwise an empty string."""
    return name if name.isprintable() and len(name) <= MAX_NAME else ""
