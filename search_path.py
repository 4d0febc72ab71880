"""The module search path of `python -m trninfer`. Imports only what the interpreter has loaded itself."""

import os
import sys


def forget_current_folder(package: str) -> None:
    """Remove the current folder from the module search path if `python -m` put it there to run this package.

    Otherwise a `typing.py` or `numpy.py` beside the user's pictures would run. To be called while `python -m` locates
    the package: `sys.argv[0]` is then "-m". A program of the user's that is started with -m and imports this package
    keeps its search path, and so does a run from the folder that holds this package.
    """
    words = len(sys.argv)  # the module's name precedes its arguments, also as in `-Imtrninfer`
    name = sys.orig_argv[-words] if words <= len(sys.orig_argv) else ""
    name = name.partition("m")[2] if name.startswith("-") else name
    if name.partition(".")[0] != package or sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    try:
        here = os.getcwd()
    except OSError:  # the folder was removed; a relative entry means nothing
        sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
        return
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and os.path.abspath(sys.path[0] or here) == here != home:
        del sys.path[0]
