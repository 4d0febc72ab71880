"""python -m trninfer.simulator SCRIPT [ARGS]: run a script with `import nki` resolved to the simulator.

For each kernel launch, a line on standard error reports the name, the shapes, the predicted time and what bounds it.
NEURON_PLATFORM_TARGET_OVERRIDE selects the target, which is trn2 by default. NKI_SIMULATOR is set in the environment of
the script, as AWS documents for code that detects the simulator. `trninfer simulate` does the same with more options.
"""

from __future__ import annotations

import os
import sys

from .machine.errors import NkiValidationError
from .running.run import Run
from .running.script import line_of, run_script

USAGE = "usage: python -m trninfer.simulator SCRIPT [ARGS...]"
MISUSED = 2


def main(arguments: list[str]) -> int:
    """Run a script and return the exit status: 1 if the script raises an exception, 2 if there is no script, 130 if it
    is interrupted."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE if not arguments else f"{USAGE}\n\n{__doc__}", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else MISUSED
    if not os.path.isfile(arguments[0]):
        return _misused(f"no such script: {arguments[0]}")
    try:
        return run_script(arguments, _report)
    except NkiValidationError as error:
        return _misused(str(error))


def _report(run: Run, shapes: list[str]) -> None:
    print(line_of(run, shapes), file=sys.stderr)


def _misused(message: str) -> int:
    print(message, file=sys.stderr)
    return MISUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
