"""What came of `doctor --selftest`: a document for programs, tables for people. Predicted and measured times stand in
columns of their own, and of the simulator it is said that nothing was measured."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
from dataclasses import dataclass, field
from typing import IO, Any

from ...inference.predictions import make_predictions
from ...models.files import Model
from ...runtime.backend import BackendInfo
from ...runtime.neuron.compiled import DEVICE_LABEL
from ...runtime.selftest.run import OK, KernelOutcome, NetworkOutcome
from ..errors import CHECK_FAILED, NO_BACKEND
from ..options import Format
from ..text import count
from .console import render_records
from .machine import SCHEMA_VERSION, prediction_record

SIMULATOR_NOTE = "SIMULATOR: nothing ran on a chip; times are predicted, none is measured"
TOP_LABELS = 3


@dataclass
class SelfTest:
    """What came of it so far; `stopped` says why it did not come to its end."""

    info: BackendInfo
    dtype: str
    kernels: list[KernelOutcome] = field(default_factory=list)
    networks: list[tuple[Model, NetworkOutcome]] = field(default_factory=list)
    stopped: str = ""

    @property
    def on_chip(self) -> bool:
        """Whether it was measured."""
        return self.info.latency_kind == "measured"

    @property
    def place(self) -> str:
        """Where it ran."""
        return "chip" if self.on_chip else "simulator"

    @property
    def failures(self) -> int:
        """How many checks did not come out as they should."""
        statuses = [outcome.status for outcome in self.kernels] + [outcome.status for _, outcome in self.networks]
        return sum(status != OK for status in statuses)

    @property
    def status(self) -> int:
        """The exit status: 3 where the chip was lost, 1 where anything differs or has no result."""
        return NO_BACKEND if self.stopped else CHECK_FAILED if self.failures else 0

    @property
    def what_to_do(self) -> str:
        """With the archive."""
        if self.on_chip:
            return "please attach this to an issue of the project, after a look into it"
        return "the archive of a run on the simulator; only one of a chip is worth sending"


def document_of(test: SelfTest, machine: list[dict[str, Any]]) -> dict[str, Any]:
    """All of it as a JSON document; `machine` is what doctor found."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "selftest",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "backend": test.info.name,
        "target": test.info.target,
        "dtype": test.dtype,
        "note": None if test.on_chip else SIMULATOR_NOTE,
        "labels": {
            "predicted_us": "predicted by the simulator",
            "measured_host_us": test.info.latency_label if test.on_chip else None,
            "measured_device_us": DEVICE_LABEL if test.on_chip else None,
        },
        "passed": test.status == 0,
        "stopped": test.stopped or None,
        "kernels": [dataclasses.asdict(outcome) for outcome in test.kernels],
        "networks": [_network(model, outcome) for model, outcome in test.networks],
        "machine": machine,
    }


def _network(model: Model, outcome: NetworkOutcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": outcome.model,
        "status": outcome.status,
        "message": outcome.message,
        "launches_note": outcome.launches_note,
        "verify": dataclasses.asdict(outcome.verification) if outcome.verification is not None else None,
        "predictions": [],
        "rows": [],
        "compared": [],
    }
    result, comparison = outcome.result, outcome.comparison
    if result is not None:
        answers = make_predictions(outcome.inputs, model.network, result.classes, result.probabilities, TOP_LABELS)
        row["predictions"] = [prediction_record(answer) for answer in answers]
        row["rows"] = [dataclasses.asdict(layer) for layer in result.layers]
    if comparison is not None:
        row["compared"] = [{**dataclasses.asdict(one), "passed": one.passed} for one in comparison.rows]
    return row


def render_machine(document: dict[str, Any], form: Format) -> str:
    """The document as JSON; or its kernels as CSV; or an object a line, by `type`."""
    if form == "json":
        return json.dumps(document, indent=2) + "\n"
    if form == "ndjson":
        heads = {key: value for key, value in document.items() if key not in ("kernels", "networks", "machine")}
        lines = [{"type": "selftest", **heads}]
        for kind in ("machine", "kernels", "networks"):
            lines += [{"type": kind.removesuffix("s"), **row} for row in document[kind]]
        return "".join(json.dumps(line) + "\n" for line in lines)
    text = io.StringIO()
    names = [each.name for each in dataclasses.fields(KernelOutcome)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "shapes": json.dumps(row["shapes"])} for row in document["kernels"])
    return text.getvalue()


def render(test: SelfTest, stream: IO[str] | None) -> str:
    """Tables for `stream`, or for a file where it is None."""
    title = f"self-test of {test.info.target} in {test.dtype}, on the {test.place}"
    columns = ["kernel", "size", "result", "error", "predicted us"]
    if test.on_chip:
        columns += ["measured, host us", "measured, device us"]
    rows = [_kernel_row(outcome, test.on_chip) for outcome in test.kernels]
    text = render_records(title, tuple(columns), rows, stream)
    text += render_records(
        "bundled networks on their samples, against the golden models",
        ("network", "inputs", "result", "largest error of a probability", "classes that differ"),
        [_network_row(outcome) for _, outcome in test.networks],
        stream,
    )
    messages = [
        f"{outcome.kernel} {outcome.variant} ({outcome.size}): {outcome.message}".replace(" ()", "")
        for outcome in test.kernels
        if outcome.message
    ]
    messages += [f"{outcome.model}: {outcome.message}" for _, outcome in test.networks if outcome.message]
    messages += [f"stopped: {test.stopped}"] if test.stopped else []
    checked = len(test.kernels) + len(test.networks)
    verdict = "all as they should be" if test.status == 0 else f"{count(test.failures, 'failure')}"
    messages += [f"{count(checked, 'check')}: {verdict}", *([] if test.on_chip else [SIMULATOR_NOTE])]
    return text + "".join(f"{line}\n" for line in messages)


def _kernel_row(outcome: KernelOutcome, on_chip: bool) -> tuple[Any, ...]:
    name = f"{outcome.kernel} {outcome.variant}".strip()
    times = [outcome.predicted_us]
    if on_chip:
        times += [outcome.measured_host_us, outcome.measured_device_us]
    error = "-" if outcome.error is None else f"{outcome.error:.1e}"
    return (name, outcome.size, outcome.status, error, *("-" if time is None else f"{time:.1f}" for time in times))


def _network_row(outcome: NetworkOutcome) -> tuple[Any, ...]:
    verdict = outcome.verification
    if verdict is None:
        return outcome.model, len(outcome.inputs), outcome.status, "-", "-"
    compared = outcome.comparison
    result = outcome.status
    if compared is not None:
        differ = sum(not row.passed for row in compared.rows)
        result += f"; {len(compared.rows) - differ} of {len(compared.rows)} launches as on the simulator"
    return outcome.model, len(outcome.inputs), result, f"{verdict.max_abs_error:.1e}", verdict.disagreements
