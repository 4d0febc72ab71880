"""The command line: commands, exit statuses, errors and interruptions.

A command's module is imported only when the command is used, and imports its dependencies only when it runs. Startup
is therefore fast, and --help does not import NumPy.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Collection, Sequence
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer

from ..version import __version__
from .config import VARIABLE
from .errors import BAD_USAGE, INTERRUPTED, Terminated, complain, exit_status, reason
from .plain_values import PlainGroup, PlainValues

_ENDING_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # SIGHUP is missing on Windows
)
_GONE = "the current folder was removed; change to another one, or use absolute paths"
GARBAGE_THRESHOLDS = (50_000, 20, 20)  # thresholds of the garbage collector; Python's default is (700, 10, 10)
_ENDINGS = {INTERRUPTED: "interrupted", **{128 + number: "terminated" for number in _ENDING_SIGNALS}}

# The base class of typer's option errors. It comes from Click, which newer versions of typer bundle.
_WrongCommandLine: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

# Module and function of each command, in the order of the help text.
COMMANDS = {
    "classify": (".classify", "classify"),
    "detect": (".detect", "detect"),
    "segment": (".segment", "segment"),
    "ffnn": (".ffnn", "ffnn"),
    "bench": (".bench.command", "bench"),
    "serve": (".serve", "serve"),
    "load": (".load", "load"),
    "models": (".models", "models"),
    "doctor": (".doctor", "doctor"),
    "lint": (".lint", "lint"),
    "migrate": (".migrate", "migrate"),
    "simulate": (".simulate", "simulate"),
    "profile": (".profile", "profile"),
    "import": (".import_model", "import_model"),  # `import` is a keyword and cannot be a function name
}


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"trninfer {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def open_app(names: Collection[str] = tuple(COMMANDS)) -> typer.Typer:
    """Return the command line with the named commands."""
    app = typer.Typer(
        name="trninfer",
        cls=PlainGroup,
        help="Run vision networks with hand-written NKI kernels on an AWS Trainium NeuronCore, or on a simulator of "
        "one, and see where every microsecond goes.",
        epilog="Exit status: 0 on success; 1 if a check failed (--verify, --compare, lint, migrate); 2 for wrong "
        "usage, or if an input could not be used (the others are still processed); 3 if the requested backend is not "
        "available; 130 if interrupted; 143 if terminated.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=len(names) == len(COMMANDS),  # completion options precede the command
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for name in names:
        home, function = COMMANDS[name]
        module = import_module(home, __package__)
        # Options after FILE are passed to the script.
        settings = {"allow_interspersed_args": False} if name == "simulate" else None
        kind = module.SimulateCommand if name == "simulate" else PlainValues
        app.command(name, cls=kind, context_settings=settings)(getattr(module, function))
    return app


def _needed(words: Sequence[str]) -> Collection[str]:
    """Return the commands that a command line needs: the one that it starts with, or all commands.

    All commands are needed for a --config file, for help and completion, and for suggestions for misspelled commands.
    """
    has_file = VARIABLE in os.environ or any(word.startswith("--config") for word in words)
    return words[:1] if words and words[0] in COMMANDS and not has_file else tuple(COMMANDS)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (by default the command line of the process) and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # escape names that the locale cannot encode
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status: Any = open_app(_needed(words))(args=words, prog_name="trninfer", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except Terminated as end:
        status = end.code
    except SystemExit:  # raised by Click if standard output is closed (--help | true)
        status = 0
    except _WrongCommandLine as error:
        complain(_describe(error, words))
        return BAD_USAGE
    except Exception as error:
        known = exit_status(error)
        if known is None:
            raise
        complain(_message(error))
        return known
    if status in _ENDINGS:
        complain(_ENDINGS[status])
    return status if isinstance(status, int) else 0


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError):
        if error.filename:
            return f"{error.filename}: {reason(error)}"
        return _GONE if isinstance(error, FileNotFoundError) and _is_folder_gone() else reason(error)
    return str(error)


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _describe(error: Any, words: Sequence[str]) -> str:
    """Describe an invalid command line in one line that refers to the help. If a file has a name that looks like an
    option, also explain how to pass it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "trninfer"
    message = " ".join(error.format_message().split()).rstrip(".")
    files = [word for word in words if word.startswith("-") and word != "-" and os.path.lexists(word)]
    if files and hasattr(error, "option_name"):
        message += f"; to pass the file {files[0]}, write ./{files[0]}"
    # wording of pydantic, forwarded by typer
    return f"{message.replace(': Value error, ', ': ')} (see {command} --help)"


def main() -> None:
    """Run the command line of the process: the entry point of the console script."""
    # Modules are kept until the process exits, so scanning them for garbage wastes time.
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    atexit.register(gc.freeze)
    # Use one BLAS thread, because tiles are too small for more, and threads that wait for a busy core stall for
    # milliseconds. NumPy reads the setting on import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for number in _ENDING_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, partial(_terminate, os.getpid()))
    _leave(run())


def _leave(status: int) -> None:
    """Exit with a status; skip Python's finalization while threads of a `DaemonPool` are running."""
    pools = sys.modules.get(f"{__name__.rpartition('.app.')[0]}.inference.daemon_pool")
    if pools is None or not pools.is_any_alive():
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _terminate(main_process: int, number: int, frame: FrameType | None) -> None:
    """Handle a signal in the same way as Ctrl-C; further signals have no effect. A forked child of a script exits
    silently."""
    if os.getpid() != main_process:
        os._exit(128 + number)
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(128 + number)
