"""`trninfer import`: a network from an ONNX file or a PyTorch state dict, as a model file of ours."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from .errors import CHECK_FAILED, UsageError, complain
from .options import takes_options
from .output import check_output, write_stdout
from .text import printable

if TYPE_CHECKING:
    from ..models.importing import Comparison, Imported, PictureOptions
    from ..models.network import ImageInput

MAX_LABEL_BYTES = 4 << 20


class Activation(str, Enum):
    """What a perceptron may have between its layers."""

    identity = "identity"
    relu = "relu"
    gelu = "gelu"
    sigmoid = "sigmoid"
    tanh = "tanh"


HELP = """Make a model file of a network from elsewhere: ONNX, or PyTorch weights in .safetensors.

State dicts are read of VGG networks (torchvision's and timm's names) and of plain multilayer perceptrons. The
imported network is run beside ONNX Runtime on random input, where that is installed; exit status 1, and no file,
where they differ.

\b
Examples:
  trninfer import net.onnx -o net.safetensors --labels classes.txt
  trninfer import vgg16.safetensors -o vgg.safetensors
  trninfer import net.onnx -o net.safetensors --input-range -1,1
"""


@takes_options(HELP)
def import_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file, or a state dict in .safetensors.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")],
    labels: Annotated[
        Optional[Path],  # noqa: UP045 (typer evaluates annotations on Python 3.10 too)
        typer.Option("--labels", metavar="FILE", help="Names of the classes, one a line. [default: their numbers]"),
    ] = None,
    input_range: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--input-range", metavar="LO,HI", help="What black and white become. [default: 0,1]"),
    ] = None,
    mean: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--mean", metavar="M[,M,M]", help="Then subtracted, by channel. [default: ImageNet's for colour]"),
    ] = None,
    std: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--std", metavar="S[,S,S]", help="Then divided by, by channel. [default: ImageNet's for colour]"),
    ] = None,
    resize: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--resize",
            metavar="N",
            min=1,
            help="Shorter side of a picture before its middle is cut out. [default: 8/7 of the network's image]",
        ),
    ] = None,
    activation: Annotated[
        Activation, typer.Option("--activation", help="Between the layers of a perceptron's state dict.")
    ] = Activation.relu,
) -> None:
    """Import a network and write it as a model file."""
    from ..models.files import save_model
    from ..models.importing import PictureOptions, import_network

    _check_output(output, model)
    span = _numbers("--input-range", input_range)
    if span is not None and len(span) != 2:
        raise UsageError(f"--input-range {input_range}: two numbers are needed, such as 0,255")
    options = PictureOptions(
        (span[0], span[1]) if span else None, _numbers("--mean", mean), _numbers("--std", std), resize
    )
    names = None if labels is None else _read_labels(labels)
    imported = import_network(model, options, names, activation.value)
    comparison = imported.comparison
    if not comparison.passed:
        complain(f"{model}: the imported network differs from ONNX Runtime; nothing was written ({_told(comparison)})")
        raise typer.Exit(CHECK_FAILED)
    try:
        save_model(output, imported.network, imported.tensors, {"imported_from": f"{imported.source}, {model.name}"})
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror or error}") from None
    write_stdout(_summary(imported, output, options, names is not None))


def _check_output(output: Path, model: Path) -> None:
    """UsageError where the model file could not be written, or would replace what it is made of."""
    check_output(output)
    if output.exists() and not output.is_file():
        raise UsageError(f"--output {output}: not a regular file")
    if output.exists() and model.exists() and os.path.samefile(output, model):
        raise UsageError(f"--output {output}: is the file that is read; give another name")


def _summary(imported: Imported, output: Path, options: PictureOptions, labelled: bool) -> str:
    """What was read, assumed, checked and written."""
    from ..models.network import ImageInput, describe_shape

    network = imported.network
    parameters = sum(tensor.size for tensor in imported.tensors.values())
    classes = len(network.labels)
    lines = [
        ("read", f"{imported.source}: {len(network.layers)} layers, {parameters:,} parameters"),
        ("input", describe_shape(network.input.shape)),
    ]
    if isinstance(network.input, ImageInput):
        lines.append(("pictures", _preprocessing(network.input, options)))
    lines += [
        ("labels", f"{classes} classes" if labelled else f"{classes} classes, numbered (--labels gives them names)"),
        ("checked", _told(imported.comparison)),
        ("wrote", str(output)),
    ]
    return "".join(f"{name + ':':<10}{printable(text)}\n" for name, text in lines)


def _preprocessing(source: ImageInput, options: PictureOptions) -> str:
    mean, std = (" ".join(f"{value:.4g}" for value in values) for values in (source.mean, source.std))
    colours = "red, green, blue" if source.channels == 3 else "grey"
    told = options.input_range or options.mean or options.std
    return (
        f"shorter side to {source.resize}, the middle {source.height}x{source.width}, {colours} 0..1, "
        f"less {mean}, by {std}{'' if told else ' (assumed; see --mean, --std, --input-range)'}"
    )


def _told(comparison: Comparison) -> str:
    if comparison.skipped:
        return f"not against ONNX Runtime: {comparison.skipped}"
    return (
        f"against ONNX Runtime on random input, largest difference {comparison.max_abs_error:.2g} "
        f"of outputs up to {comparison.largest_output:.3g}"
    )


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Numbers with commas between them."""
    if text is None:
        return None
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: numbers with commas between them are needed") from None


def _read_labels(path: Path) -> tuple[str, ...]:
    """The lines of a text file."""
    from ..models.regular_files import describe, open_regular

    try:
        with open_regular(path) as file:
            raw = file.read(MAX_LABEL_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--labels {path}: {describe(error)}") from None
    if len(raw) > MAX_LABEL_BYTES:
        raise UsageError(f"--labels {path}: more than {MAX_LABEL_BYTES >> 20} MiB; one line for each class is needed")
    try:
        lines = [line.strip() for line in raw.decode("utf-8-sig").rstrip().split("\n")]
    except UnicodeDecodeError:
        raise UsageError(f"--labels {path}: not a text file in UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if not line or not line.isprintable():
            raise UsageError(f"--labels {path}: line {number} is {'not printable' if line else 'empty'}")
    return tuple(lines)
