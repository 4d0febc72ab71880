"""Start functions of this package in a new Python process; all child processes are started in this way."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def python_command(module: str, function: str, *arguments: str) -> list[str]:
    """Return the command that calls `function(*arguments)` of a module in a new Python process.

    The new process searches for modules in the search path of this process, then in the path of its own environment.
    Unlike `python -m`, it does not search the current folder, which may contain an unrelated `numpy.py`. The process
    chooses independently which `nki` it imports.
    """
    own = f"(each for each in sys.path if os.path.isabs(each) and each != {_current_folder()!r})"
    begin = f"import os, sys; sys.path[:] = dict.fromkeys([*{search_path()!r}, *{own}])"
    return [sys.executable, "-c", f"{begin}; from {module} import {function}; {function}(*sys.argv[1:])", *arguments]


def search_path() -> list[str]:
    """Return the module search path of this process for use in another process.

    The path excludes the current folder, unless the folder contains this package, and the simulator's folder, in which
    processes spawned by multiprocessing find the simulator's `nki`.
    """
    here = _current_folder()
    simulator = os.path.join(_PACKAGE, "simulator")
    found = []
    for entry in sys.path:
        if here is None and not os.path.isabs(entry):  # the entry refers to the current folder, which was removed
            continue
        folder = os.path.abspath(entry or here or "")
        if folder != here and not os.path.join(folder, "").startswith(os.path.join(simulator, "")):
            found.append(entry)
    return found


def _current_folder() -> str | None:
    """Return the folder to exclude from the search path, or None if it was removed or contains the package."""
    try:
        here = os.getcwd()
    except OSError:
        return None
    return None if here == os.path.dirname(_PACKAGE) else here
