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


if __name__ == "__main__":
    main()
