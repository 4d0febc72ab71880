"""`trninfer models show`: describe a network file without running it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..models.files import Model
    from ..models.network import Network
    from ..models.outputs import NamedOutput
    from .options import Format

SHOWN_LABELS = 10  # maximum number of labels per output in the table; machine-readable formats contain all


def show_model(name: str, form: Format, output: Path | None) -> None:
    """Describe a bundled model, a model file or an ONNX file."""
    from ..runtime.open_model import open_model
    from .output import stream_of, write_output
    from .reports.console import render_records
    from .reports.emit import emit_rows

    model = open_model(name)
    if form != "table":
        emit_rows([to_record(model, name)], "models", form, output)
        return
    stream = stream_of(output)
    network = model.network
    shapes, sizes = network.shapes(), _sizes(network)
    layers = [
        (layer.name, layer.kind, " ".join(map(str, shapes[layer.name])), f"{sizes[layer.name]:,}")
        for layer in network.layers
    ]
    text = render_records(network.name, ("property", "value"), _facts(model, name), stream)
    text += "\n" + render_records("layers", ("layer", "kind", "output", "parameters"), layers, stream)
    write_output(text, output)


def to_record(model: Model, name: str) -> dict[str, Any]:
    """Return the description as plain values, for machine-readable formats."""
    from ..models.bundled import parse_accuracy

    network = model.network
    shapes, sizes = network.shapes(), _sizes(network)
    return {
        "name": network.name,
        "source": name,
        "inputs": [
            {"name": part_name, "shape": list(part.shape), "kind": part.kind, **dataclasses.asdict(part)}
            for part_name, part in _inputs(network)
        ],
        "outputs": [
            {
                "name": output.name,
                "shape": list(output.shape),
                "kind": output.output.kind,
                "scores": output.output.scores,
                "labels": list(output.labels),
            }
            for output in network.named_outputs
        ],
        "parameters": sum(sizes.values()),
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "output_shape": list(shapes[layer.name]),
                "parameters": sizes[layer.name],
            }
            for layer in network.layers
        ],
        "assumed": list(model.assumed),
        "notes": list(model.notes),
        "imported_from": model.metadata.get("imported_from", ""),
        "trained_on": model.metadata.get("trained_on", ""),
        "accuracy": [dataclasses.asdict(score) for score in parse_accuracy(model.metadata.get("accuracy", "[]"))],
    }


def _facts(model: Model, name: str) -> list[tuple[str, str]]:
    from ..models.bundled import parse_accuracy

    network = model.network
    facts = [("file", name), *_input_facts(network), *_output_facts(network)]
    facts.append(("parameters", f"{sum(_sizes(network).values()):,} in {len(network.layers)} layers"))
    for title in ("imported_from", "trained_on", "license"):
        if model.metadata.get(title):
            facts.append((title.replace("_", " "), model.metadata[title]))
    facts += [
        ("accuracy", f"{100 * score.fraction:.2f} % on {score.on}")
        for score in parse_accuracy(model.metadata.get("accuracy", "[]"))
    ]
    facts += [("assumed", note) for note in model.assumed] + [("noted", note) for note in model.notes]
    advice = _advice(model, name)
    return [*facts, ("to change it", advice)] if advice else facts


def _input_facts(network: Network) -> Iterator[tuple[str, str]]:
    from ..models.checks import describe_shape
    from ..models.inputs import ImageInput
    from .network_text import describe_preprocessing

    several = len(_inputs(network)) > 1
    for name, part in _inputs(network):
        yield "input", (f"{name}: " if several else "") + describe_shape(part.shape)
        if isinstance(part, ImageInput):
            yield "pictures", describe_preprocessing(part)


def _output_facts(network: Network) -> Iterator[tuple[str, str]]:
    from .network_text import describe_answers

    for output in network.named_outputs:
        title = f"{output.name} {list(output.shape)}: " if network.others else ""
        yield "output", title + describe_answers(output, not _is_numbered(output))
        if output.labels and output.output.kind != "values":
            more = len(output.labels) - SHOWN_LABELS
            yield "labels", ", ".join(output.labels[:SHOWN_LABELS]) + (f", ... and {more} more" if more > 0 else "")


def _advice(model: Model, name: str) -> str:
    """Return instructions for changing the displayed properties; empty for networks that were not imported."""
    if name.lower().endswith((".onnx", ".onnx.gz")):
        command = f"trninfer import {name} -o FILE.safetensors"
    elif model.metadata.get("imported_from"):
        command = "trninfer import of its original file"
    else:
        return ""
    options = "the options in parentheses" if model.assumed else "options"
    return f"{command}, with {options} (labels: --labels, meaning of outputs: --output-kind)"


def _inputs(network: Network) -> list[tuple[str, Any]]:
    from ..models.inputs import SeveralInputs

    if isinstance(network.input, SeveralInputs):
        return [(part.name, part.input) for part in network.input.parts]
    return [(network.input.kind, network.input)]


def _is_numbered(named: NamedOutput) -> bool:
    """Return True if the labels are just the class numbers."""
    return named.labels == tuple(map(str, range(len(named.labels))))


def _sizes(network: Network) -> dict[str, int]:
    """Return the number of parameters of each layer, keyed by layer name."""
    return {layer.name: sum(math.prod(shape) for shape in layer.tensors().values()) for layer in network.layers}
