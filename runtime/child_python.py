"""Functions of this package in a Python of their own."""

from __future__ import annotations

import sys

from ..kernels.nki_source import path_of_packages


def python_command(module: str, function: str, *arguments: str) -> list[str]:
    """Return the command that calls `function(*arguments)` of a module in a new Python.

    It searches for modules where this process does, then where its environment says, but not in the current folder as
    `python -m` would: a `numpy.py` of anyone may be there. Which `nki` it has is its own choice.
    """
    searched = [folder for folder in path_of_packages() if folder]
    begin = f"import sys; sys.path[:] = dict.fromkeys([*{searched!r}, *filter(None, sys.path)])"
    return [sys.executable, "-c", f"{begin}; from {module} import {function}; {function}(*sys.argv[1:])", *arguments]
