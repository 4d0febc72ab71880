"""`trninfer doctor`: report the Neuron hardware and software of this machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .errors import UsageError
from .option_groups import format_of
from .output import check_output

if TYPE_CHECKING:
    from rich.console import Console

_STATUS = {
    "ready": "ok",
    "newer": "ok",
    "older": "ok",
    "missing": "missing",
    "placeholder": "wrong",
    "too old": "wrong",
}

_INSTALL = "to install"  # prefix of the names of checks whose detail is an installation command

_SelftestOption = Annotated[
    bool,
    typer.Option(
        "--selftest",
        help="Run every kernel and the bundled networks, and write an archive that can be attached to an issue.",
    ),
]
_CompileOnlyOption = Annotated[
    bool,
    typer.Option(
        "--compile-only",
        help="With --selftest: only compile, for trn2 and trn3 or for --target. Requires AWS's compiler, but no chip.",
    ),
]
_ArchiveOption = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        metavar="FILE",
        help="With --selftest: archive to write. [default: trninfer-selftest-TARGET-chip|compiler|simulator-DTYPE.zip]",
    ),
]


def doctor(
    form: options.FormatOption = None,  # type: ignore[assignment]  # see `format_of`
    output: options.OutputOption = None,
    selftest: _SelftestOption = False,
    compile_only: _CompileOnlyOption = False,
    archive: _ArchiveOption = None,
    backend: options.BackendOption = "auto",
    target: options.TargetOption = None,
    dtype: options.DtypeOption = "float32",
    compile_timeout: options.CompileTimeoutOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Report the parts of AWS Neuron on this machine, and which backend --backend auto selects.

    Looks for Neuron devices, the driver, the runtime, tools and AWS's packages, without loading any of them. If a
    package is missing or is the placeholder from PyPI ("WRONG PACKAGE"), the command prints how to install it. The
    target is NEURON_PLATFORM_TARGET_OVERRIDE if that is set, else the chip of the instance, else trn2. The result of
    each check is ok, missing or wrong; the exit status is always 0.

    With --selftest, every kernel is run at a small size and at an odd size, and compared with the golden NumPy model;
    kernels that are known to have failed on a chip are run first. Then the bundled networks are run on their samples;
    on a chip, each of their kernels is also compared with the simulator. The results are written to an archive, with
    predicted and measured times in separate columns. Addresses and the names of folders, people and machines are
    removed from it. If you run this on a chip, please send us the archive. The self-test also runs on the simulator.
    The exit status is 1 if a result differs, and 3 if the chip is lost three times in a row. If a kernel fails on the
    chip, the next kernel runs in a new process. --backend, --target, --dtype, --archive, --compile-timeout and --quiet
    require --selftest.

    With --compile-only, AWS's compiler compiles every kernel and the bundled networks to NEFFs, for trn2 and trn3, on
    any machine with nki and neuronx-cc (pip install '.[neuron-neff]', see docs/chip.md). Nothing runs on a chip. Please
    send us this archive as well.

    \b
    Examples:
      trninfer doctor
      On a new Trainium instance (takes minutes, because kernels are compiled):
        trninfer doctor --selftest
      Without an instance, on any x86 machine with AWS's compiler:
        trninfer doctor --selftest --compile-only
      Information to attach to a bug report:
        trninfer doctor --format json --output machine.json
      The report for another target:
        NEURON_PLATFORM_TARGET_OVERRIDE=trn1 trninfer doctor
    """
    check_output(output)
    form = form or format_of(output, options.FormatOption)
    if not selftest:
        _check_selftest_only(archive, target, compile_timeout, compile_only)
        _print_checks(_checks(), form, output)
        return
    run_options = options.RunOptions(
        dtype=dtype,
        backend=backend,
        target=target,
        compile_timeout=compile_timeout,
        form=form,
        output=output,
        quiet=quiet,
    )
    raise typer.Exit(_run(run_options, archive, compile_only))


def _check_selftest_only(
    archive: Path | None, target: str | None, compile_timeout: float | None, compile_only: bool
) -> None:
    """Raise UsageError for options that are used only by the self-test."""
    values = {
        "--archive": archive, "--target": target, "--compile-timeout": compile_timeout,
        "--compile-only": compile_only or None,
    }  # fmt: skip
    for name, value in values.items():
        if value is not None:
            raise UsageError(f"{name} requires --selftest")


def _run(chosen: options.RunOptions, archive: Path | None, compile_only: bool) -> int:
    """Run the self-test, or only compile its kernels, and return the exit status."""
    from .selftest import run_compile_only, run_selftest

    if chosen.dtype == "float8_e4m3":
        raise UsageError("--selftest supports only 32-bit and 16-bit dtypes; use another --dtype")
    if not compile_only:
        return run_selftest(chosen, archive, _checks())
    if chosen.backend == "sim":
        raise UsageError("--compile-only only compiles kernels, so it cannot be combined with --backend sim")
    return run_compile_only(chosen, archive, _checks())


def _print_checks(rows: list[dict[str, Any]], form: options.Format, output: Path | None) -> None:
    from .output import stream_of, write_output
    from .reports.console import cell, print_line, render_records, to_text
    from .reports.emit import emit_rows

    if form != "table":
        emit_rows(rows, "doctor", form, output)
        return
    stream, installs = stream_of(output), [row for row in rows if row["check"].startswith(_INSTALL)]
    records = [(row["check"], row["status"], row["detail"]) for row in rows if row not in installs]
    columns = ("check", "status", "detail")
    text = render_records("this machine", columns, records, stream)

    def commands(console: Console) -> None:
        for row in installs:
            print_line(console, f"{row['check']}:")
            console.print(cell(f"  {row['detail']}"), soft_wrap=True)  # not wrapped, so that it can be copied

    write_output(text + to_text(commands, stream), output)


def _checks() -> list[dict[str, Any]]:
    """Return one record per check; `status` is ok, missing or wrong."""
    import importlib.metadata

    from ..runtime.choose import decide
    from ..runtime.neuron import environment
    from ..version import __version__

    rows = [_row("trninfer", "ok", f"version {__version__}")]
    machine = f"{platform.system()} {platform.machine()}"
    rows.append(_row("python", "ok", f"version {platform.python_version()} on {machine}"))
    rows += [_row(name, "ok", f"version {importlib.metadata.version(name)}") for name in ("numpy", "pillow")]
    devices = environment.neuron_devices()
    rows.append(_row("neuron device", "ok" if devices else "missing", ", ".join(devices) or "no /dev/neuron*"))
    rows += _neuron_system()
    for package in environment.neuron_packages():
        rows.append(_row(package.name, _STATUS[package.state], package.explanation))
    if environment.find_way().way is None:
        if not environment.missing_packages()[environment.NRT]:
            rows.append(
                _row(
                    "without a chip",
                    "ok",
                    "trninfer doctor --selftest --compile-only: writes an archive to attach to an issue",
                )
            )
        rows += [_row(f"{_INSTALL} {where}", "missing", command) for where, command in environment.INSTALL_COMMANDS]
    else:
        rows.append(
            _row(
                "first run",
                "ok",
                "trninfer doctor --selftest: runs every kernel once and writes an archive to attach to an issue",
            )
        )
    choice = decide("auto")
    rows.append(_row("backend auto", "ok", f"{choice.backend}: {choice.reason}"))
    rows.append(_target(choice.backend))
    return rows


def _neuron_system() -> list[dict[str, Any]]:
    """Return the versions of AWS's driver, runtime and tools, and the number of kernels compiled on this machine."""
    from ..runtime.backend import BackendUnavailable
    from ..runtime.neuron.compile_cache import cache_folder, cache_size
    from ..runtime.neuron.system import (
        driver_version,
        instance_type,
        runtime_library,
        system_packages,
        visible_cores,
    )
    from .text import count

    driver = driver_version()
    rows = [
        _found("neuron driver", f"version {driver}" if driver else None, "modinfo reports no module neuron"),
        _found("neuron runtime", runtime_library(), "no libnrt.so.1 in /opt/aws/neuron/lib"),
        _found("system packages", ", ".join(system_packages()), "no aws-neuronx-* according to dpkg or rpm"),
        _found("instance", instance_type(), "unknown to neuron-ls"),
    ]
    try:
        cores = visible_cores()
        description = f"{len(cores)}: {_list(cores)}" if cores else None
        rows.append(_found("neuroncores", description, "unknown to neuron-ls"))
    except BackendUnavailable as error:
        rows.append(_row("neuroncores", "wrong", str(error)))
    folder = cache_folder()
    if folder is None:
        why = "no cache: this user has no home folder; set TRNINFER_CACHE to another one"
        return [*rows, _row("compiled kernels", "missing", why)]
    size = cache_size(folder)
    rows.append(
        _row("compiled kernels", "ok", f"{count(size.entries, 'kernel')}, {size.size_bytes:,} bytes in {folder}")
    )
    return rows


def _target(backend: str) -> dict[str, Any]:
    """Return the target for which kernels are compiled or simulated, and how it was determined."""
    from ..runtime.backend import TARGET_VARIABLE, TargetError, resolve_target
    from ..runtime.neuron.system import instance_target

    target = instance_target() if backend == "neuron" else None
    if os.environ.get(TARGET_VARIABLE):
        target, reason = None, TARGET_VARIABLE
    else:
        reason = "this instance" if target else "the default"
    try:
        return _row("target", "ok", f"{resolve_target(target)} ({reason})")
    except TargetError as error:
        return _row("target", "wrong", str(error))


def _list(cores: tuple[int, ...]) -> str:
    """Format core numbers as text, such as `0 to 15` if there are no gaps."""
    is_range = len(cores) > 2 and cores == tuple(range(cores[0], cores[-1] + 1))
    return f"{cores[0]} to {cores[-1]}" if is_range else ", ".join(map(str, cores))


def _found(check: str, detail: str | None, otherwise: str) -> dict[str, Any]:
    return _row(check, "ok", detail) if detail else _row(check, "missing", otherwise)


def _row(check: str, status: str, detail: str) -> dict[str, Any]:
    return {"check": check, "status": status, "detail": detail}
