"""`trninfer models`: what is bundled."""

from __future__ import annotations

from typing import Any

from . import options


def models(form: options.FormatOption = "table", output: options.OutputOption = None) -> None:
    """List the bundled models: what they read, their size, and their accuracy on what was held out of training.

    Any of the names goes with --model of classify, ffnn and bench. The accuracy is that of the float32 network; how it
    was measured is in the card beside each file in weights/. Use trninfer import for networks of your own.

    \b
    Examples:
      trninfer models
      What programs want to know, layers, classes and file sizes among it:
        trninfer models --format json
      The names alone:
        trninfer models --format csv | tail -n +2 | cut -d, -f1
    """
    from ..models.bundled import bundled_models
    from ..models.checks import describe_shape
    from .output import check_output, stream_of, write_output
    from .reports.console import render_records
    from .reports.emit import emit_rows

    check_output(output)
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
