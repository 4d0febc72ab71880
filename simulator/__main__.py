"""python -m trninfer.simulator SCRIPT [ARGS]: run a script with `import nki` resolved to the simulator.

For each kernel that it launches, one line on standard error: name, shapes, predicted time and what bounds it. The
target is that of NEURON_PLATFORM_TARGET_OVERRIDE, as for `nki.simulate`. NKI_SIMULATOR is set for the script, as AWS
documents it for code that asks where it runs.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from typing import Any

from . import install, launch
from .errors import NkiValidationError
from .run import Run
from .targets import default_target

USAGE = "usage: python -m trninfer.simulator SCRIPT [ARGS...]"
MISUSED = 2


def main(arguments: list[str]) -> int:
    """Run a script; its exit status, 1 where it raises, 2 where there is none to run, 130 where it is interrupted."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE if not arguments else f"{USAGE}\n\n{__doc__}", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else MISUSED
    script = arguments[0]
    if not os.path.isfile(script):
        return _fail(f"no such script: {script}", MISUSED)
    try:
        default_target()
    except NkiValidationError as error:
        return _fail(str(error), MISUSED)
    install()
    os.environ.setdefault("NKI_SIMULATOR", "1")
    launch.observers.append(_report)
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(os.path.abspath(script), run_name="__main__")
    except SystemExit as end:
        return _status(end.code)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        _show(error)
        return 1
    finally:
        launch.observers.remove(_report)
    return 0


def _report(run: Run, shapes: list[str]) -> None:
    note = f"; {run.note}" if run.note else ""
    predicted = f"{run.latency_us:.1f} us predicted, bound by {run.bound_by}{note}"
    print(f"{run.name}({', '.join(shapes)}) on {run.target}: {predicted}", file=sys.stderr)


def _show(error: BaseException) -> None:
    """The script's own traceback, without the frames that brought us there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != os.path.abspath(sys.argv[0]):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)


def _status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    return _fail(str(code), 1)


def _fail(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
