"""`python -m trninfer` and the command `trninfer`: the command line."""

import os
import sys

INTERRUPTED = 130  # app/errors.py has it too, but imports take a while, in which Ctrl-C may come


def main() -> None:
    """Run the command line of this process and exit with its status, also where it is interrupted while it loads."""
    try:
        from .app.main import main as run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            os.write(2, b"trninfer: interrupted\n")
        sys.exit(INTERRUPTED)
    finally:
        # Python ends `python -m` by a signal, whatever the exit status, where Ctrl-C came while text was executed, as
        # dataclasses do while they load; text that runs through makes it forget that.
        exec("")


def forget_current_folder() -> None:
    """Import nothing more from the current folder, which `python -m` searches first: a `numpy.py` beside pictures
    would run. It is kept where this package was found in it."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    searched = not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))
    if searched and sys.path and sys.path[0] != home and os.path.abspath(sys.path[0]) == os.path.abspath(os.curdir):
        del sys.path[0]


if __name__ == "__main__":
    forget_current_folder()
    main()
