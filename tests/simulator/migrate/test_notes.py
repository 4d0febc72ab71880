"""The notes of a migration on the lines of a file."""

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.notes import CANNOT, CHECK, Note, Notes


def test_a_note_is_kept_once_and_notes_sort_by_line():
    notes = Notes()
    for line in (9, 3, 9):
        notes.add(line, CANNOT, "no counterpart")
    notes.add(9, CHECK, "no counterpart")
    notes.add(9, CANNOT, "another reason")
    assert sorted(notes.notes) == [
        Note(3, CANNOT, "no counterpart"),
        Note(9, CANNOT, "another reason"),
        Note(9, CANNOT, "no counterpart"),
        Note(9, CHECK, "no counterpart"),
    ]


def test_a_note_reads_path_line_kind_message():
    assert Note(12, CANNOT, "no counterpart").shown("a/kernel.py") == "a/kernel.py:12: cannot: no counterpart"
