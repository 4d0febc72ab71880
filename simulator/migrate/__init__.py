"""Kernels of older NKI dialects in NKI 0.7.

    from trninfer.simulator.migrate import migrate_source
    migration = migrate_source(text)
    migration.text                           # the file in NKI 0.7
    migration.notes                          # lines that need a look, and what is left to be done by hand

It needs libcst (`pip install trninfer[migrate]`). Nothing is run: a file is rewritten by its source alone.
"""

from __future__ import annotations

from .module import Migration, Migrator
from .notes import CANNOT, CHECK, Note

__all__ = ["CANNOT", "CHECK", "Migration", "Note", "migrate_source"]


def migrate_source(text: str) -> Migration:
    """A file with kernels of any NKI from the first to 0.6, rewritten for NKI 0.7.

    Raises:
        SyntaxError: the text is no Python.
    """
    return Migrator(text).migrate()
