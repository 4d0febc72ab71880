"""`trninfer models`: list the bundled models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from . import options
from .completion import complete_model
from .errors import UsageError
from .option_groups import format_of


def models(
    action: Annotated[
        Literal["show"] | None,
        typer.Argument(help="show: describe one model and its layers.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="With show: name of a bundled network, or a .safetensors or ONNX file.",
            autocompletion=complete_model,
            show_default=False,
        ),
    ] = None,
    form: options.FormatOption = None,  # type: ignore[assignment]  # see `format_of`
    output: options.OutputOption = None,
) -> None:
    """List the bundled models with their inputs, their sizes, and their accuracy on held-out data.

    With show, describe one model: its input, preprocessing, outputs, labels, layers and parameters, and the assumptions
    made when it was imported, with the options that change them.

    The names can be passed to --model of other commands. Accuracy was measured in float32, as described in each model's
    card in weights/. To add your own networks, use trninfer import.

    \b
    Examples:
      trninfer models
      trninfer models show network.onnx
      As JSON, including layers, classes and file sizes:
        trninfer models --format json
      Print only the names:
        trninfer models --format csv | tail -n +2 | cut -d, -f1
    """
    from .output import check_output

    check_output(output)
    form = form or format_of(output, options.FormatOption)
    if action is not None:
        from .show_model import show_model

        if name is None:
            raise UsageError("models show requires a model, such as trninfer models show digits-cnn")
        show_model(name, form, output)
    else:
        _list_models(form, output)


def _list_models(form: options.Format, output: Path | None) -> None:
    from ..models.bundled import bundled_models
    from ..models.checks import describe_shape
    from .output import stream_of, write_output
    from .reports.console import render_records
    from .reports.emit import emit_rows

    rows: list[dict[str, Any]] = [
        {
            "name": model.name,
            "input": describe_shape(model.network.input.shape),
            "layers": len(model.network.layers),
            "classes": len(model.network.labels),
            "parameters": model.parameters,
            "file_bytes": model.file_bytes,
            "accuracy": [
                {"on": score.on, "correct": score.correct, "total": score.total, "accuracy": score.fraction}
                for score in model.accuracy
            ],
            "trained_on": model.trained_on,
        }
        for model in bundled_models()
    ]
    if form != "table":
        emit_rows(rows, "models", form, output)
        return
    columns = ("model", "reads", "parameters", "file", "held-out accuracy")
    records = [
        (
            row["name"],
            row["input"],
            f"{row['parameters']:,}",
            f"{row['file_bytes'] / 1000:.0f} kB",
            _scores(row["accuracy"]),
        )
        for row in rows
    ]
    write_output(render_records("bundled models", columns, records, stream_of(output)), output)


def _scores(accuracy: list[dict[str, Any]]) -> str:
    return "; ".join(f"{100 * score['accuracy']:.2f} % on {score['on']}" for score in accuracy) or "-"
