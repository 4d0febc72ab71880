"""Run a script with `import nki` resolved to the simulator, and describe its launches."""

from __future__ import annotations

import ast
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..checking.sanitizing import sanitized
from ..machine.chip import TARGET_VARIABLE, find_target
from ..machine.errors import NkiValidationError, without_ours
from ..machine.settings import changed_environment
from ..machine.syntax import parse
from ..timing.by_line import describe_line
from . import kernel
from .install import install
from .run import Run

FAILED, INTERRUPTED = 1, 130
DEFAULT_TARGET = "trn2"
MAX_SCRIPT_BYTES = 4 << 20  # compilation takes up to a thousand bytes of memory per byte of source
MAX_SCRIPT_LINES = 200_000

Observer = Callable[[Run, list[str]], None]


@dataclass(frozen=True)
class Edits:
    """Changes that are applied to a script before it runs."""

    constants: Mapping[str, ast.expr] = field(default_factory=dict)  # new values of names assigned at its top level
    text: tuple[str, str] | None = None  # replacement text, and the file name reported for its lines


def run_script(
    arguments: Sequence[str],
    observe: Observer,
    target: str | None = None,
    sanitize: bool | str = False,
    edits: Edits | None = None,
) -> int:
    """Run a script and return its exit status.

    `arguments` contains the path of the script and its arguments in sys.argv.

    `observe` is called with every launch. If `target` is None, NEURON_PLATFORM_TARGET_OVERRIDE determines the target,
    which is trn2 by default. NKI_SIMULATOR is set, as AWS documents for code that detects the simulator. Tracebacks on
    standard error contain only frames of the script. `edits` are changes to the text of the script.

    Raises:
        NkiValidationError: the target is unknown, or the script is too long.
    """
    script = os.path.abspath(arguments[0])
    _check_length(script, arguments[0])
    resolved = find_target(target or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET)
    install()
    environment = {TARGET_VARIABLE: resolved.name, "NKI_SIMULATOR": os.environ.get("NKI_SIMULATOR", "1")}
    argv, path = sys.argv, list(sys.path)
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(script))
    kernel.observers.append(observe)
    try:
        with changed_environment(environment), sanitized(sanitize):
            if edits is not None:
                _run_changed(script, edits)
            else:
                runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return _status(end.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        _show(error, edits.text[1] if edits is not None and edits.text is not None else script)
        return FAILED
    finally:
        kernel.observers.remove(observe)
        sys.argv, sys.path[:] = argv, path
    return 0


def _run_changed(script: str, edits: Edits) -> None:
    """Run a script with other values for its top-level names, or run a replacement text."""
    module = ModuleType("__main__")
    module.__file__ = script
    if edits.text is not None:
        source, shown_name = edits.text
        tree = parse(source, shown_name)
    else:
        shown_name = script
        with open(script, "rb") as file:
            tree = parse(file.read(), script)
    for statement in tree.body:
        for name in assigned(statement) & set(edits.constants):
            statement.value = ast.copy_location(edits.constants[name], statement.value)  # type: ignore[attr-defined]
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(compile(ast.fix_missing_locations(tree), shown_name, "exec"), module.__dict__)
    finally:
        sys.modules["__main__"] = before


def assigned(statement: ast.stmt) -> set[str]:
    """Return a set with the name that a statement `NAME = ...` assigns. The set is empty for other statements."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return {target.id for target in targets if len(targets) == 1 and isinstance(target, ast.Name)}


def _check_length(script: str, shown: str) -> None:
    """Raise NkiValidationError for a script whose compilation would require too much memory."""
    advice = "keep data in a file that it reads"
    if (size := os.path.getsize(script)) > MAX_SCRIPT_BYTES:
        most = f"at most {MAX_SCRIPT_BYTES >> 20} MiB"
        raise NkiValidationError(f"{shown}: the script has {size >> 20} MiB, but {most} are run; {advice}")
    with open(script, "rb") as file:
        lines = file.read(MAX_SCRIPT_BYTES).count(b"\n")
    if lines > MAX_SCRIPT_LINES:
        most = f"at most {MAX_SCRIPT_LINES:,}"
        raise NkiValidationError(f"{shown}: the script has {lines:,} lines, but {most} are run; {advice}")


def line_of(run: Run, shapes: list[str]) -> str:
    """Describe a launch in one line: name, shapes, target, predicted time, bound, MFU and DMAs."""
    note = f"; {run.note}" if run.note else ""
    predicted = f"{run.latency_us:.1f} us predicted, bound by {run.bound_by}, {describe_work(run)}{note}"
    cores = f", {run.prediction.cores} cores" if run.prediction.cores > 1 else ""
    return f"{run.name}({', '.join(shapes)}) on {run.target}{cores}: {predicted}"


def describe_work(run: Run) -> str:
    """Format the MFU (if there are matmuls) and the DMAs, as in "MFU 41.2 %, 48 DMAs of 64.0 KiB on average"."""
    sizes = dmas(run)
    mfu = f"MFU {100 * run.mfu:.1f} %, " if run.flops and run.mfu >= 0.0005 else ""
    if not sizes:
        return f"{mfu}no DMA"
    counted = "1 DMA" if len(sizes) == 1 else f"{len(sizes):,} DMAs"
    return f"{mfu}{counted} of {_size(sum(sizes) / len(sizes))}{' on average' if len(set(sizes)) > 1 else ''}"


def _size(count: float) -> str:
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count:.4g} bytes"


def dmas(run: Run) -> list[int]:
    """Return the number of bytes that each DMA of a launch moves."""
    return [instruction.dma.bytes for instruction in run.program if instruction.dma is not None]


def summary(run: Run, shapes: list[str]) -> dict[str, Any]:
    """Return a JSON-serialisable summary of a launch. Times are predictions, and sizes are in bytes."""
    sizes = dmas(run)
    return {
        "kernel": run.name,
        "arguments": shapes,
        "target": run.target,
        "latency_kind": "predicted",
        "latency_us": round(run.latency_us, 3),
        "bound_by": run.bound_by,
        "critical_us": {name: round(spent, 3) for name, spent in run.critical.by_resource.items()},
        "mfu": round(run.mfu, 5),
        "hbm_bytes": run.hbm_bytes,
        "dma": {
            "count": len(sizes),
            "bytes": sum(sizes),
            "average_bytes": sum(sizes) / len(sizes) if sizes else 0.0,
            "count_by_bytes": {str(size): sizes.count(size) for size in sorted(set(sizes))},
        },
        "sbuf_peak_bytes": run.memory.sbuf_bytes,
        "note": run.note,
        "reuse": run.reuse.as_dict() if run.reuse is not None else None,
        "full_psum": run.full_psum.as_dict() if run.full_psum is not None else None,
        "findings": [str(finding) for finding in run.findings],
    }


def lines_of(run: Run, most: int) -> list[str]:
    """Return lines of text: the kernel lines with the largest shares of the critical path, and advice."""
    return [f"  {describe_line(line)}" for line in run.lines[:most]] + [f"  advice: {advice}" for advice in run.advice]


def _show(error: BaseException, script: str) -> None:
    """Print a traceback without the frames of the simulator. Print none if the script is not valid Python."""
    trace = without_ours(error)
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    if trace is not None:
        traceback.print_exception(type(error), error, trace)
        return
    prefix = "" if getattr(error, "filename", None) else f"{script}: "
    print(prefix + "".join(traceback.format_exception_only(error)), end="", file=sys.stderr)


def _status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return FAILED
