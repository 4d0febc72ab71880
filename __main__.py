"""`python -m trninfer` and the command `trninfer`: the command line."""

import os
import sys

BAD_USAGE = 2
LEAST_BYTES = 208 << 20  # of addresses, with which NumPy and its BLAS load
INTERRUPTED = 130  # app/errors.py has it too, but imports take a while, in which Ctrl-C may come


def _check_memory() -> None:
    """End with a line where a limit (ulimit -v) leaves NumPy too little to load: it would print tracebacks itself."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_BYTES and not {"-h", "--help", "--version"} & {*sys.argv}:
        os.write(2, f"trninfer: needs {LEAST_BYTES >> 20} MiB of memory; a limit allows {limit >> 20}\n".encode())
        sys.exit(BAD_USAGE)


def main() -> None:
    """Run the command line of this process and exit with its status, also where it is interrupted while it loads."""
    _check_memory()
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
