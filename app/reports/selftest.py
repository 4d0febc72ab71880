"""Reports of `doctor --selftest`: a machine-readable document, and human-readable tables.

Predicted and measured times are in separate columns, and the report says so if no kernel was run on a chip.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from ...inference.boxes import Limits
from ...inference.detections import Detector
from ...inference.predictions import make_predictions
from ...models.files import Model
from ...runtime.backend import DEVICE_LABEL, BackendInfo
from ...runtime.neuron.settings import compiler_settings
from ...runtime.selftest.run import OK, KernelOutcome, NetworkOutcome
from ..errors import CHECK_FAILED, NO_BACKEND
from ..options import Format
from ..text import count
from .console import render_records
from .machine import SCHEMA_VERSION, prediction_record

SIMULATOR_NOTE = "SIMULATOR: nothing ran on a chip; all times are predicted"
COMPILER_NOTE = "COMPILED ONLY: nothing ran on a chip; answers and times are the simulator's"
# fields that are encoded as JSON in CSV
_NESTED = ("shapes", "otherwise", "tensors", "failure", "compile_tried", "aws_estimate")
AWS_LABEL = "AWS's estimate"  # computed by AWS's compiler, neither predicted by trninfer nor measured
TOP_LABELS = 3


@dataclass
class SelfTest:
    """The results of a self-test so far; `stopped` contains the reason if it ended early."""

    info: BackendInfo
    dtype: str
    kernels: list[KernelOutcome] = field(default_factory=list)
    networks: list[tuple[Model, NetworkOutcome]] = field(default_factory=list)
    stopped: str = ""

    @property
    def on_chip(self) -> bool:
        """Return True if times were measured."""
        return self.info.latency_kind == "measured"

    @property
    def place(self) -> str:
        """Return where the self-test ran: "chip", "compiler" or "simulator"."""
        return "chip" if self.on_chip else "compiler" if self.is_compiled_only else "simulator"

    @property
    def is_compiled_only(self) -> bool:
        """Return True if kernels were only compiled for the chip, and run on the simulator."""
        return self.info.name == "compile-only"

    @property
    def note(self) -> str | None:
        """Return the note to display with the times of the self-test."""
        return None if self.on_chip else COMPILER_NOTE if self.is_compiled_only else SIMULATOR_NOTE

    @property
    def failures(self) -> int:
        """Return the number of failed checks."""
        failed = [outcome.is_failure for outcome in self.kernels]
        return sum(failed) + sum(outcome.is_failure for _, outcome in self.networks)

    @property
    def status(self) -> int:
        """Return the exit status: 3 if the chip was lost, 1 if any result differs or is missing."""
        return NO_BACKEND if self.stopped else CHECK_FAILED if self.failures else 0

    @property
    def what_to_do(self) -> str:
        """Return instructions on what to do with the archive."""
        if self.on_chip or self.is_compiled_only:
            return "please review this archive and attach it to an issue of the project"
        return "this archive is from the simulator; only archives from a chip are worth sending"


def document_of(test: SelfTest, machine: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the results as a JSON document; `machine` contains the checks of `doctor`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "selftest",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "backend": test.info.name,
        "target": test.info.target,
        "dtype": test.dtype,
        "note": test.note,
        "settings": compiler_settings() if test.on_chip or test.is_compiled_only else None,
        "labels": {
            "predicted_us": "predicted by the simulator",
            "measured_host_us": test.info.latency_label if test.on_chip else None,
            "measured_device_us": DEVICE_LABEL if test.on_chip else None,
            "aws_estimate": AWS_LABEL if test.is_compiled_only else None,
        },
        "passed": test.status == 0,
        "stopped": test.stopped or None,
        "kernels": [dataclasses.asdict(outcome) for outcome in test.kernels],
        "networks": [_network(model, outcome) for model, outcome in test.networks],
        "machine": machine,
    }


def join_documents(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document if there is only one, or a document whose `runs` contain all of them."""
    if len(documents) == 1:
        return documents[0]
    head = {name: documents[0][name] for name in ("schema_version", "command", "date")}
    return {**head, "passed": all(document["passed"] for document in documents), "runs": documents}


def _network(model: Model, outcome: NetworkOutcome) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": outcome.model,
        "status": outcome.status,
        "message": outcome.message,
        "log": outcome.log,
        "failure": dataclasses.asdict(outcome.failure) if outcome.failure is not None else None,
        "launches": outcome.launches,
        "launches_note": outcome.launches_note,
        "verify": dataclasses.asdict(outcome.verification) if outcome.verification is not None else None,
        "predictions": [],
        "rows": [],
        "compared": [],
    }
    result, comparison = outcome.result, outcome.comparison
    if result is not None:
        result_arrays = outcome.inputs, model.network, result.classes, result.probabilities
        has_boxes = model.network.output.kind == "boxes"  # boxes are in pixels of the network's image
        answers = Detector(Limits(), {})(*result_arrays) if has_boxes else make_predictions(*result_arrays, TOP_LABELS)
        row["predictions"] = [prediction_record(answer) for answer in answers]
        row["rows"] = [dataclasses.asdict(layer) for layer in result.layers]
    if comparison is not None:
        row["compared"] = [
            {**dataclasses.asdict(row_comparison), "passed": row_comparison.passed}
            for row_comparison in comparison.rows
        ]
    return row


def _lines_of(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a run: first the fields of the whole run, then its rows."""
    kinds = ("machine", "kernels", "networks")
    yield {"type": "selftest", **{key: value for key, value in run.items() if key not in kinds}}
    for kind in kinds:
        yield from ({"type": kind.removesuffix("s"), **row} for row in run[kind])


def render_machine(document: dict[str, Any], form: Format) -> str:
    """Return the document as JSON, its kernels as CSV, or one object per line with a `type` (NDJSON)."""
    if form == "json":
        return json.dumps(document, indent=2) + "\n"
    runs = document.get("runs", [document])
    if form == "ndjson":
        return "".join(json.dumps(line) + "\n" for run in runs for line in _lines_of(run))
    text = io.StringIO()
    names = ["target", *(field.name for field in dataclasses.fields(KernelOutcome))]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        for row in run["kernels"]:
            nested = {name: json.dumps(row[name]) for name in _NESTED}
            writer.writerow({"target": run["target"], **row, **nested})
    return text.getvalue()


def render(test: SelfTest, stream: IO[str] | None) -> str:
    """Return tables for `stream`, or for a file if it is None."""
    title = f"self-test of {test.info.target} in {test.dtype}, on the {test.place}"
    columns = ["kernel", "size", "result", "error", "predicted us"]
    if test.on_chip:
        columns += ["measured, host us", "measured, device us"]
    if test.is_compiled_only:
        columns += [f"{AWS_LABEL} us", "BIRSim's error", "compiled in s", "GiB"]
    rows = [_kernel_row(outcome, test) for outcome in test.kernels]
    text = render_records(title, tuple(columns), rows, stream)
    text += render_records(
        "bundled networks on their samples, against the golden models",
        ("network", "launches", "inputs", "result", "largest error of a probability", "classes that differ"),
        [_network_row(outcome) for _, outcome in test.networks],
        stream,
    )
    messages = [_message(outcome) for outcome in test.kernels if outcome.message]
    messages += [
        f"{outcome.model}, {outcome.launches}: {outcome.message}" for _, outcome in test.networks if outcome.message
    ]
    messages += [f"stopped: {test.stopped}"] if test.stopped else []
    checked = len(test.kernels) + len(test.networks)
    verdict = "all passed" if test.status == 0 else f"{count(test.failures, 'failure')}"
    known = sum(outcome.status != OK and outcome.informational for outcome in test.kernels)
    verdict += f"; {count(known, 'difference')} that are expected on chips" if known else ""
    messages += [f"{count(checked, 'check')}: {verdict}", *filter(None, [test.note])]
    return text + "".join(f"{line}\n" for line in messages)


def _message(outcome: KernelOutcome) -> str:
    """Return the reason why a kernel has no result, and the results of compiling it in other ways."""
    line = f"{outcome.kernel} {outcome.variant} ({outcome.size}): {outcome.message}".replace(" ()", "")
    return line + "".join(f"; {attempt.how}: {attempt.error or 'compiles'}" for attempt in outcome.otherwise)


def _kernel_row(outcome: KernelOutcome, test: SelfTest) -> tuple[Any, ...]:
    name = f"{outcome.kernel} {outcome.variant}".strip()
    numbers = [outcome.predicted_us]
    if test.on_chip:
        numbers += [outcome.measured_host_us, outcome.measured_device_us]
    if test.is_compiled_only:
        estimate = outcome.aws_estimate
        numbers += [estimate.total_us if estimate is not None else None]
    error = _scientific(outcome.error)
    result = f"{outcome.status} (known)" if outcome.status != OK and outcome.informational else outcome.status
    cells = ["-" if number is None else f"{number:.1f}" for number in numbers]
    if test.is_compiled_only:
        seconds = "-" if outcome.compile_seconds is None else f"{outcome.compile_seconds:.1f}"
        cells += [_scientific(outcome.birsim_error), seconds, f"{(outcome.compile_peak_bytes or 0) / 2**30:.1f}"]
    return (name, outcome.size, result, error, *cells)


def _scientific(number: float | None) -> str:
    return "-" if number is None else f"{number:.1e}"


def _network_row(outcome: NetworkOutcome) -> tuple[Any, ...]:
    verdict = outcome.verification
    if verdict is None:
        return outcome.model, outcome.launches, len(outcome.inputs), outcome.status, "-", "-"
    compared = outcome.comparison
    result = outcome.status
    if compared is not None:
        differ = sum(not row.passed for row in compared.rows)
        result += f"; {len(compared.rows) - differ} of {len(compared.rows)} launches match the simulator"
    error = f"{verdict.max_abs_error:.1e}"
    return outcome.model, outcome.launches, len(outcome.inputs), result, error, verdict.disagreements
