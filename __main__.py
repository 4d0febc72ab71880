"""The command line, started by `python -m trninfer` and by the command `trninfer`."""

import os
import sys

BAD_USAGE = 2
LEAST_BYTES = 208 << 20  # address space in bytes required to load NumPy and its BLAS
INTERRUPTED = 130  # also in app/errors.py, but Ctrl-C may arrive while modules are still being imported


def _check_memory() -> None:
    """Exit with a one-line message if a limit (ulimit -v) leaves too little memory to load NumPy, whose import would
    otherwise print tracebacks."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_BYTES and not {"-h", "--help", "--version"} & {*sys.argv}:
        os.write(2, f"trninfer: needs {LEAST_BYTES >> 20} MiB of memory; a limit allows {limit >> 20}\n".encode())
        sys.exit(BAD_USAGE)


def main() -> None:
    """Run the command line of this process and exit with its status, even if it is interrupted during imports."""
    try:
        _check_memory()
        from .app.main import main as run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            os.write(2, b"trninfer: interrupted\n")
        sys.exit(INTERRUPTED)
    finally:
        # If Ctrl-C arrives while Python is executing code from a string (dataclasses do so during imports), `python -m`
        # ends with a signal regardless of the exit status. Executing another string resets that state.
        exec("")


if __name__ == "__main__":
    main()
