"""Tables as text: how wide they are, and what they hold in a narrow window."""

import io
import os

import pytest
from trninfer.app.reports.console import NARROW, TIGHT, cell, print_line, print_pairs, render_records, to_text


@pytest.mark.parametrize("width", [40, 50, 60, 79])
def test_tables_fit_narrow_windows(cli, picture_model, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told = cli("bench", "--model", picture_model).out
    assert max(map(len, told.splitlines())) <= width and "predicted us" in told.replace("predicted\n", "predicted")
    assert ("columns shows shapes" in " ".join(told.split())) == (width < TIGHT)


@pytest.mark.parametrize("width", ["\u00b2", "-5", "", "9" * 30, "x"])
def test_a_width_that_is_none(cli, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "digits-ffnn" in cli("models").out


def test_a_narrow_window_has_a_line_for_each_value_and_breaks_no_words(cli, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for command, told in (("models", "  parameters: 19,210"), ("doctor", "  status: ok")):
        lines = cli(command).out.splitlines()
        assert max(map(len, lines)) <= 40 and told in lines
    assert "https://pip.repos.neuron.amazonaws.com" in cli("doctor").out


COLUMNS = (("name", "kernel"), [(cell("a"), cell("transpose")), (cell("b" * 9), cell("argmax"))])
SHAPES = (("input", "-> output"), [(cell("1x2"), cell("-> 2x1"))] * 2)
TIMES = (("us", "bound by"), [(cell("1.25"), cell("tensor")), (cell("30"), cell("DMA issue"))])
BYTES = (("bytes", "rate"), [(cell("8 B"), cell("1 B/s"))] * 2)
PAIRS = [COLUMNS, SHAPES, TIMES, BYTES]


def lines_of(width: int, monkeypatch: pytest.MonkeyPatch, pairs=PAIRS) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return to_text(lambda console: print_pairs(console, "the title", pairs), None).splitlines()


def test_pairs_stand_beside_each_other_where_there_is_room(monkeypatch) -> None:
    title, head, rule, *rows = lines_of(100, monkeypatch)
    assert title == "the title" and set(rule) == {"-"}
    assert head.split() == ["name", "kernel", "input", "->", "output", "us", "bound", "by", "bytes", "rate"]
    assert [row.split()[:2] for row in rows] == [["a", "transpose"], ["b" * 9, "argmax"]]
    # Numbers are set to the right, text to the left.
    assert rows[0].index("1.25") + 4 == rows[1].index("30") + 2
    assert rows[0].index("transpose") == rows[1].index("argmax")


def test_else_the_second_is_below_the_first(monkeypatch) -> None:
    lines = lines_of(TIGHT, monkeypatch, [*PAIRS, BYTES, BYTES])
    assert lines[1].split() == ["name", "input", "us", "bytes", "bytes", "bytes"] and max(map(len, lines)) <= TIGHT
    assert [line.split()[0] for line in lines[4:]] == ["a", "transpose", "b" * 9, "argmax"]


def test_a_tight_window_has_names_and_times_alone(monkeypatch) -> None:
    lines = lines_of(TIGHT - 1, monkeypatch)
    text = " ".join(lines)
    assert f"(a window of {TIGHT} columns shows shapes and bytes too)" in " ".join(text.split())
    assert "transpose" in text and "1.25" in text and "8 B" in text and "1x2" not in text


def test_no_window_is_narrower_than_all_that_is_shown(monkeypatch) -> None:
    seen: list[int] = []
    for columns, width in (("1", NARROW), ("39", NARROW), ("41", 41), ("", 200), ("-3", 200)):
        monkeypatch.setenv("COLUMNS", columns)
        seen.clear()
        to_text(lambda console: seen.append(console.width), None)
        assert seen == [width]


class Terminal(io.StringIO):
    encoding = "ascii"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_colour_and_width_are_those_of_a_terminal(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((57, 9)))
    seen: list[int] = []

    def fill(console) -> None:
        seen.append(console.width)
        print_line(console, "gr\u00f6\u00dfe [red]x", "bold")

    shown = to_text(fill, Terminal())
    assert seen == [57] and "\x1b[1m" in shown and r"gr\xf6\xdfe [red]x" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in to_text(fill, Terminal())
    assert to_text(fill, None) == "gr\u00f6\u00dfe [red]x\n" and to_text(fill, io.StringIO()).isprintable() is False


def test_cells_hold_no_control_characters() -> None:
    assert cell("a\nb\x1b[2J\udcff", "bold").plain == r"a\nb\x1b[2J\xff"
    assert to_text(lambda console: print_line(console, "[b]\x07"), None) == "[b]\\x07\n"


def test_records_are_lines_where_a_table_does_not_fit(monkeypatch) -> None:
    rows: list[tuple] = [("nki", "wrong", "a long reason that " * 4), ("numpy", 7, "2.0")]
    monkeypatch.setenv("COLUMNS", str(TIGHT))
    lines = render_records("the title", ("check", "status", "detail"), rows, None).splitlines()
    assert lines[:2] == ["the title", "check  status  detail"] and lines[-1] == "numpy  7       2.0"
    monkeypatch.setenv("COLUMNS", str(TIGHT - 1))
    lines = render_records("the title", ("check", "status", "detail"), rows, None).splitlines()
    assert lines[:3] == ["the title", "nki", "  status: wrong"]
    assert lines[-3:] == [
        "numpy",
        "  status: 7",
        "  detail: 2.0",
    ]
    with pytest.raises(ValueError, match="shorter"):
        render_records("", ("check", "status", "detail"), [("a", "b")], None)
