"""`trninfer doctor`: what this machine has."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any

from . import options

_STATUS = {"ready": "ok", "missing": "missing", "placeholder": "wrong", "too old": "wrong"}


def doctor(
    form: options.FormatOption = options.Format.table,
    output: options.OutputOption = None,
) -> None:
    """Say what this machine has, and which backend is used."""
    from .output import check_output, write_output, write_stdout
    from .report import emit_rows
    from .report_table import render_records

    check_output(output)
    rows = _checks()
    if form is not options.Format.table:
        emit_rows(rows, "doctor", form, output)
        return
    records = [(row["check"], row["status"], row["detail"]) for row in rows]
    columns = ("check", "status", "detail")
    if output is None:
        write_stdout(render_records("this machine", columns, records, sys.stdout))
    else:
        write_output(render_records("this machine", columns, records, None), output)


def _checks() -> list[dict[str, Any]]:
    """A record a check; `status` is ok, missing or wrong."""
    from ..runtime import environment
    from ..runtime.backend import TargetError, decide, resolve_target
    from ..version import __version__

    rows = [_row("trninfer", "ok", f"version {__version__}")]
    machine = f"{platform.system()} {platform.machine()}"
    rows.append(_row("python", "ok", f"version {platform.python_version()} on {machine}"))
    rows += [_row(name, "ok", f"version {importlib.metadata.version(name)}") for name in ("numpy", "pillow")]
    devices = environment.neuron_devices()
    rows.append(_row("neuron device", "ok" if devices else "missing", ", ".join(devices) or "no /dev/neuron*"))
    for package in environment.neuron_packages():
        rows.append(_row(package.name, _STATUS[package.state], package.explanation))
    if environment.missing_for_neuron():
        rows.append(_row("to use the chip", "missing", environment.INSTALL_HINT))
    choice = decide("auto")
    rows.append(_row("backend auto", "ok", f"{choice.backend}: {choice.reason}"))
    try:
        rows.append(_row("target", "ok", resolve_target(None)))
    except TargetError as error:
        rows.append(_row("target", "wrong", str(error)))
    return rows


def _row(check: str, status: str, detail: str) -> dict[str, Any]:
    return {"check": check, "status": status, "detail": detail}
