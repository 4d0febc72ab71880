"""CSV cells for terminals and spreadsheets."""

from __future__ import annotations

import csv
import io
import os
import pty
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trninfer.app.reports.cells import guard, unguard

FORMULAS = ("=1+1", "+cmd|x", "-2+3", "@sum(a)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "\uff201", "'=1", "''-x", "- 5")
HARMLESS = ("", "-", "=", "'-", "-0.5", "-0.5 1e-3 -2", "+1", "a=b", "photo.png", "'", "7")


@pytest.mark.parametrize("cell", FORMULAS)
def test_formulas_get_an_apostrophe(cell: str) -> None:
    assert guard(cell) == f"'{cell}" and unguard(guard(cell)) == cell


@pytest.mark.parametrize("cell", HARMLESS)
def test_other_cells_are_unchanged(cell: str) -> None:
    assert guard(cell) == cell and unguard(cell) == cell


@given(st.text() | st.text(st.sampled_from("'=+-@\t1 a.")))
@example("'-1")
def test_guarded_cell_can_be_restored(cell: str) -> None:
    assert unguard(guard(cell)) == cell


NAMES = ("=cmd|'x'!A1.png", "\x1b[31m\u009b\u202e.png", "a\nb.png", "+1.png")


@pytest.fixture
def named(pictures: Path) -> Path:
    """Return pictures whose names contain escape sequences and formulas."""
    for name in NAMES:
        shutil.copy(pictures / "1.png", pictures / name)
    return pictures


def test_a_safe_csv_for_spreadsheets_and_its_resumption(cli, named, picture_model, tmp_path) -> None:
    arguments = ("classify", named, "--model", picture_model, "--format", "csv", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(named)
        arguments = ("classify", *NAMES, "2.png", *arguments[2:])
        plain = list(csv.reader(io.StringIO(cli(*arguments).out, newline="")))
        safe = cli(*arguments, "--csv-safe").out
        rows = list(csv.reader(io.StringIO(safe, newline="")))
        assert [row[0] for row in plain[1:]] == [*NAMES, "2.png"]
        assert [row[0] for row in rows[1:]] == [f"'{NAMES[0]}", NAMES[1], NAMES[2], f"'{NAMES[3]}", "2.png"]
        assert [row[1:] for row in rows] == [row[1:] for row in plain]
        shutil.copy("2.png", "=9.png")
        output = ("--csv-safe", "--output", tmp_path / "o.csv")
        assert cli(*arguments, *output).status == 0
        assert cli(*arguments, "=9.png", *output, "--resume").status == 0
    written = (tmp_path / "o.csv").read_text("utf-8")
    assert written.startswith(safe + "'=9.png,")
    *_, (_, *expected), (_, *resumed) = csv.reader(io.StringIO(written, newline=""))
    # For another batch size, BLAS may sum in a different order.
    assert resumed[:2] == expected[:2] and float(resumed[2]) == pytest.approx(float(expected[2]), rel=1e-5)
    assert resumed[3:] == expected[3:]
    assert "--csv-safe requires --format csv" in cli("classify", named, "--csv-safe").err


@pytest.mark.parametrize("output", [(), ("--output", "/dev/stdout")])
def test_a_terminal_is_shown_no_cell_as_it_is(process, named, picture_model, output) -> None:
    ours, its = pty.openpty()
    arguments = ("--model", picture_model, "--format", "csv", "--quiet", *output)
    running = process("classify", ".", "missing\x1b2J.png", *arguments, cwd=named, stdout=its)
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    running.wait()
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert all(char.isprintable() or char == "\n" for char in text)
    assert r"./a\nb.png,1," in text and r"missing\x1b2J.png,,,,no such file" in text and r"\u202e" in text
    assert len(text.splitlines()) == 9
