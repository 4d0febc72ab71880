"""`trninfer import`: convert an ONNX file or a PyTorch state dict to a model file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import CHECK_FAILED, UsageError, complain, reason
from .import_options import InputOptions, NetworkOptions
from .option_groups import takes_options
from .text import printable

if TYPE_CHECKING:
    from ..inference.picture_check import PictureCheck
    from ..models.files import Model, StagedModel
    from ..models.importing import Comparison, Imported
    from ..runtime.network_check import NetworkCheck

HELP = """Convert an ONNX network, or PyTorch weights in a .safetensors file, to a model file.

Reads ONNX files of convolutional and feed-forward networks, as written by PyTorch, Keras (tf2onnx), scikit-learn
(skl2onnx) and ONNX Runtime's tools; docs/networks.md lists the supported operators. Also reads state dicts of VGG
networks (with torchvision's or timm's names) and of plain multilayer perceptrons; --layers describes any other sequence
of layers. For other kinds of files, the error message contains the command that converts them.

The network is compared with ONNX Runtime on random inputs, if ONNX Runtime is installed, and run on the simulator in
several batch sizes. If answers differ, no file is written, and the exit status is 1. If the network cannot be run, the
import fails unless --unchecked is given. If Hugging Face's preprocessor_config.json and config.json are in the same
folder as the file, they determine the preprocessing of pictures and the names of the classes. Assumptions are printed,
stored in the model file, and shown by trninfer models show; --check-pictures tests them.

\b
Examples:
  trninfer import net.onnx -o net.safetensors --labels classes.txt
  trninfer import resnet50.onnx -o resnet50.safetensors --labels imagenet
  trninfer import mnist.onnx -o mnist.safetensors --pictures digit
  trninfer import net.onnx -o net.safetensors --check-pictures validation/ --expect labels.csv
  trninfer import keras.onnx -o net.safetensors --resize-mode squash --filter nearest --input-range -1,1
  trninfer import net.onnx -o net.safetensors --input-range -1,1 --channel-order bgr
  trninfer import mlp.safetensors -o mlp-model.safetensors --activation relu
"""


@takes_options(HELP)
def import_model(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX file, or a state dict in a .safetensors file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Model file to write.")],
    check_folder: Annotated[
        Path | None,
        typer.Option(
            "--check-pictures",
            metavar="DIR",
            help="Compare the accuracy of the imported preprocessing and of alternatives, on a folder with one "
            "subfolder of pictures per class.",
        ),
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option("--expect", metavar="FILE", help="With --check-pictures: table of pictures and their classes."),
    ] = None,
    *,
    inputs: InputOptions,
    options: NetworkOptions,
) -> None:
    """Import a network and write its model file."""
    from ..inference.picture_check import check_pictures
    from ..models.importing import import_network
    from .output import check_kept, check_output, write_stdout

    if expect is not None and check_folder is None:
        raise UsageError("--expect requires --check-pictures DIR")
    check_output(output)
    if output.exists() and not output.is_file():
        raise UsageError(f"--output {output}: not a regular file")
    check_kept((model, options.labels or model, options.preprocessor or model), ("--output", output))
    imported = import_network(model, inputs.read(), options.read_labels(), options.read())
    comparison = imported.comparison
    if not comparison.passed:
        complain(
            f"{model}: the imported network differs from ONNX Runtime; nothing was written ({_describe(comparison)})"
        )
        raise typer.Exit(CHECK_FAILED)
    with _stage(output, imported) as staged:
        imported = replace(imported, tensors=staged.model.tensors)  # so that only one copy is in memory
        trial = None if options.unchecked else _try(model, staged.model, comparison.sensitivity)
        checked = check_pictures(staged.model, check_folder, expect) if check_folder is not None else None
        try:
            staged.commit()
        except OSError as error:
            raise _unwritable(output, error) from None
    write_stdout(summary(imported, output, trial) + (_accuracy(checked) if checked is not None else ""))
    for problem in checked.problems if checked is not None else ():
        complain(str(problem))


def _try(path: Path, model: Model, sensitivity: float) -> NetworkCheck:
    """Run an imported network on the simulator. Raises typer.Exit if its outputs are wrong."""
    from ..models.errors import ModelError
    from ..runtime.network_check import check_network

    try:
        trial = check_network(model, sensitivity)
    except ModelError as error:
        raise UsageError(f"{path}: {error}; --unchecked imports it anyway") from None
    if not trial.passed:
        complain(f"{path}: the simulator runs this network incorrectly; nothing was written ({_tried(trial)})")
        raise typer.Exit(CHECK_FAILED)
    return trial


def _stage(output: Path, imported: Imported) -> StagedModel:
    """Write the model file under a temporary name. Raises UsageError if that fails."""
    from ..models.files import StagedModel

    try:
        return StagedModel(output, imported.network, imported.tensors, imported.metadata)
    except OSError as error:
        raise _unwritable(output, error) from None


def _unwritable(output: Path, error: OSError) -> UsageError:
    return UsageError(f"--output {output}: cannot be written: {reason(error)}")


def summary(imported: Imported, output: Path | None, trial: NetworkCheck | None) -> str:
    """Describe an import: the network, the assumptions, the checks and, if `output` is given, the file that was
    written."""
    from ..models.checks import describe_shape
    from ..models.inputs import ImageInput, SeveralInputs
    from .network_text import describe_answers, describe_preprocessing, first_labels

    network = imported.network
    parameters = sum(tensor.size for tensor in imported.tensors.values())
    lines = [("read", f"{imported.source}: {len(network.layers)} layers, {parameters:,} parameters")]
    spec = network.input
    inputs = [("", spec)]
    if isinstance(spec, SeveralInputs):
        inputs = [(f"{part.name}: ", part.input) for part in spec.parts]
    for prefix, input_spec in inputs:
        lines.append(("input", prefix + describe_shape(input_spec.shape)))
        lines += [("pictures", describe_preprocessing(input_spec))] if isinstance(input_spec, ImageInput) else []
    for output_spec in network.named_outputs:
        name = f"{output_spec.name} {list(output_spec.shape)}: " if network.others else ""
        labelled = bool(imported.labels_from) and output_spec is network.named_outputs[0]
        lines.append(("output", name + describe_answers(output_spec, labelled)))
    if imported.labels_from not in ("", "the user"):
        lines.append(("labels", f"{first_labels(network.labels)}, from {imported.labels_from}"))
    for title, notes in (("noted", imported.notes), ("assumed", imported.assumed)):
        lines += zip((title, *[""] * len(notes)), notes)
    lines += [("checked", _describe(imported.comparison)), ("", _tried(trial))]
    lines += [("wrote", str(output))] if output is not None else []
    return "".join(f"{name + ':' if name else '':<10}{printable(text)}\n" for name, text in lines)


def _accuracy(checked: PictureCheck) -> str:
    """Format the number of correctly classified pictures, with the imported preprocessing and with common
    alternatives."""
    lines = [f"{way.name}: {way.correct} of {way.total} correct" for way in checked.ways]
    if checked.left_out:
        lines[0] += f" ({checked.left_out} more were skipped)"
    better = checked.better
    if better is not None:
        lines.append(f"{better.name} is correct more often: import with {better.options}")
    return "".join(f"{'' if number else 'accuracy:':<10}{line}\n" for number, line in enumerate(lines))


def _tried(trial: NetworkCheck | None) -> str:
    """Describe the result of running the network on the simulator."""
    if trial is None:
        return "not on the simulator (--unchecked)"
    if trial.verification is None:
        return "planned in 32 and 16 bits, but too large to run on the simulator"
    batches = " and ".join(", ".join(map(str, trial.batches)).rsplit(", ", 1))
    error = trial.verification.max_abs_error
    return f"on the simulator in batches of {batches}, largest difference {error:.2g}; planned in 32 and 16 bits"


def _describe(comparison: Comparison) -> str:
    if comparison.skipped:
        return f"not: {comparison.skipped}"
    return (
        f"against ONNX Runtime on {comparison.examples} random inputs, largest difference "
        f"{comparison.max_abs_error:.2g} of outputs up to {comparison.largest_output:.3g}"
    )
