"""The module search path of `python -m trninfer`. Imports only modules that the interpreter has already loaded."""

import os
import sys


def forget_current_folder(package: str) -> None:
    """Remove the current folder from the module search path if `python -m` added it in order to run this package.

    Otherwise, a `typing.py` or `numpy.py` in the folder of the user's pictures would be imported. Must be called while
    `python -m` locates the package, when `sys.argv[0]` is "-m". The search path is left unchanged for a user's program
    that is started with -m and imports this package, and for a run from the folder that contains this package.
    """
    words = len(sys.argv)  # the module name precedes its arguments, even in a form such as `-Imtrninfer`
    name = sys.orig_argv[-words] if words <= len(sys.orig_argv) else ""
    name = name.partition("m")[2] if name.startswith("-") else name
    if name.partition(".")[0] != package or sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    try:
        here = os.getcwd()
    except OSError:  # the folder was removed, so relative entries are meaningless
        sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
        return
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and os.path.abspath(sys.path[0] or here) == here != home:
        del sys.path[0]
