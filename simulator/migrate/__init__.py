"""Migration of kernels from older NKI dialects to NKI 0.7.

    from trninfer.simulator.migrate import migrate_source
    migration = migrate_source(text)
    migration.text                         # the file in NKI 0.7
    migration.notes                        # lines to check, and lines that must be rewritten by hand

New code is composed as source text and parsed in one place (`layout.in_place_of`), which inserts it into the tree with
the comments of the code that it replaces. Building nodes would make the code longer: a call of an instruction is one
line of text, but five to ten lines of nested constructors. Operands are compared as text (the shapes of two tiles are
equal if the texts of their extents are), sums of indices are simplified as text, and templates of libcst would parse
text as well. Existing code is never parsed again: statements, suites and host code are changed as nodes.

This package requires libcst (`pip install trninfer[migrate]`). No code is executed: the migration only analyses the
source of the file.
"""

from __future__ import annotations

import warnings

from ..machine.syntax import parse
from .audit import LossError
from .limits import LimitError, refuse_deep, with_deep_stack
from .module import Migrator
from .notes import CANNOT, CHECK, Migration, MigrationError, Note

__all__ = ["CANNOT", "CHECK", "LimitError", "LossError", "Migration", "MigrationError", "Note", "migrate_source"]


def migrate_source(text: str, keep_runners: bool = False) -> Migration:
    """Rewrite a file with kernels in any NKI version from the first to 0.6 for NKI 0.7.

    With `keep_runners`, calls and decorators that ran or timed kernels (nki.baremetal, nki.benchmark, nki.profile,
    nki.trace, nki.simulate_kernel) are left unchanged, for use with a simulator that provides them.

    Raises:
        SyntaxError: the text is not valid Python.
        LimitError: the file is nested too deeply, or its migration takes too long.
        MigrationError: there is a bug in the migration; LossError if the result lacks part of the source.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes in the source
            tree = parse(text)
    except (RecursionError, MemoryError):
        raise LimitError("it is nested too deeply to be parsed") from None
    except ValueError as error:  # null bytes, in Python 3.11 and earlier
        raise SyntaxError(str(error)) from None
    refuse_deep(tree)
    try:
        migration = with_deep_stack(lambda: Migrator(text, tree, keep_runners).migrate())
    except (SyntaxError, LimitError, MigrationError, MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise MigrationError(f"{type(error).__name__}: {error}") from error
    assert isinstance(migration, Migration)
    return migration
