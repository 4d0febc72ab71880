"""Open the backend, or the session over several workers, that the options select."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..runtime.launch_options import LaunchOptions
from .errors import UsageError, complain
from .options import AnswerOptions, RunOptions
from .output import write_stderr
from .text import printable

if TYPE_CHECKING:
    from ..models.files import Model
    from ..runtime.backend import Backend
    from ..runtime.calibration import Calibration
    from ..runtime.session import BatchSession, Session
    from ..runtime.workers.worker import Prepare
    from .reports.report import Cores


def load(model: str, quiet: bool = False, size: tuple[int, int] | None = None) -> Model:
    """Load a model by bundled name or path.

    An ONNX file is imported for this run, and a notice is printed. `size` is the height and width of the input if the
    file does not specify them.
    """
    from ..runtime.open_model import open_model

    return open_model(model, None if quiet else complain, size)


def open_backend(options: RunOptions) -> Backend:
    """Open the backend that the options select. Long steps and problems are reported on standard error."""
    from ..runtime.choose import choose_backend

    _begin(options)
    return choose_backend(
        options.backend,
        options.target,
        options.trace is not None or options.report_file is not None,
        options.lnc,
        **_counts(options),
        device_times=options.device_times,
        progress=progress_printer(options),
        warn=complain,
    )


def session_on(backend: Backend, model: Model, options: RunOptions, calibration: Calibration | None = None) -> Session:
    """Open a session of a model on one backend and print a note on the number of launches."""
    from ..runtime.session import Session

    launches = _launch_options(options, calibration)
    session = Session(model, backend, options.dtype, options.batch_size, launches, complain)
    if session.launches_note is not None and not options.quiet:
        complain(session.launches_note)
    return session


@contextlib.contextmanager
def open_session(
    model: Model,
    options: AnswerOptions,
    prepare: Prepare | None = None,
    calibration: Calibration | None = None,
) -> Iterator[BatchSession]:
    """Open a session of a model; its workers are stopped when the block ends.

    If `prepare` is given, the workers receive sources instead of arrays and call it to read the inputs.
    """
    if not options.is_shared:
        yield session_on(open_backend(options), model, options, calibration)
        return
    from ..runtime.workers.shared_session import share_out

    if options.cluster is None:
        _begin(options)
    with share_out(
        model,
        options.dtype,
        options.cores,
        backend=options.backend,
        target=options.target,
        lnc=options.lnc,
        neuron_options=_counts(options),
        address=options.cluster,
        prepare=prepare,
        launches=_launch_options(options, calibration),
        progress=progress_printer(options),
        warn=complain,
    ) as session:
        yield session


def _launch_options(options: RunOptions, calibration: Calibration | None) -> LaunchOptions:
    return LaunchOptions(options.launches, options.instructions, options.convolutions, calibration, options.eight_bits)


def cores_of(session: BatchSession, worker_us: Mapping[int, float]) -> Cores | None:
    """Return the times of the workers, or None for a session in this process."""
    from ..runtime.session import Session

    if isinstance(session, Session):
        return None
    from ..runtime.workers.shared_session import SharedSession
    from .reports.report import Cores

    if not isinstance(session, SharedSession):
        return None
    return Cores(session.workers, max(worker_us.values(), default=0.0), tuple(worker_us.values()))


def choice_note(name: str) -> str | None:
    """Return the reason why `auto` selected the simulator, or None if a backend was named or the chip was selected.

    Must be called before a backend is opened, since that fixes the choice for the process. Raises BackendUnavailable if
    the named backend is missing.
    """
    from ..runtime.choose import decide

    choice = decide(name)
    if name != "auto" or choice.backend != "sim":
        return None
    return f"auto chose the simulator: {choice.reason.partition('; ')[0]}; see trninfer doctor"


def _counts(options: RunOptions) -> dict[str, Any]:
    """Return the warm-up, iteration and compile-timeout arguments of the Neuron backend that were given."""
    options_given = {
        "warmup": options.warmup,
        "iterations": options.iterations,
        "compile_seconds": options.compile_timeout,
    }
    return {name: value for name, value in options_given.items() if value is not None}


def _begin(options: RunOptions) -> str:
    """Return the name of the selected backend. Raises UsageError if it does not support the options; prints a note on
    options that have no effect."""
    from ..runtime.choose import decide

    backend = decide(options.backend).backend
    if backend == "neuron":
        if options.trace is not None:
            raise UsageError("--trace requires the simulator, because the chip provides no timeline; add --backend sim")
        return backend
    options_given = {
        "--warmup": options.warmup is not None,
        "--iters": options.iterations is not None,
        "--device-times": options.device_times,
        "--compile-timeout": options.compile_timeout is not None,
    }
    without_effect = [option for option, is_given in options_given.items() if is_given]
    if without_effect and not options.quiet:
        complain(f"{', '.join(without_effect)}: no effect on the simulator, which predicts times")
    return backend


def progress_printer(options: RunOptions) -> Callable[[str], None]:
    """Return a function that prints a line on standard error, or does nothing with --quiet."""
    return (lambda text: None) if options.quiet else (lambda text: write_stderr(f"{printable(text)}\n"))
