"""Tables as text: their width, and their contents in a narrow window."""

import io
import os

import pytest
from trninfer.app.reports.console import (
    NARROW,
    ONE_LINE,
    TIGHT,
    Column,
    cell,
    print_line,
    print_rows,
    render_records,
    to_text,
)
from trninfer.runtime.neuron.environment import INSTALL_COMMANDS


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 120, 160])
def test_rows_of_layers_are_a_line_from_80_columns_on(cli, picture_model, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = cli("bench", "--model", picture_model).out.splitlines()
    assert max(map(len, lines)) <= width
    names = [line for line in lines if line.startswith("launch")]
    head = next(line for line in lines if "predicted us" in line)
    assert len(names) == 1 and (names[0] == "launch") == (width < ONE_LINE)
    assert head.startswith("layer") == (width >= ONE_LINE)
    assert ("output" in head) == (width >= 100) and ("kernel" in head) == (width >= 160)
    assert "bound by" in head or width < 60


def test_wide_shows_all_columns(cli, picture_model, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = cli("bench", "--model", picture_model, "--wide").out
    head = next(line for line in told.splitlines() if line.startswith("layer"))
    assert head.split()[-3:] == ["input", "output", "kernel"] and len(head) > 80 and "not shown" not in told


COMMANDS = {command for _, command in INSTALL_COMMANDS}


@pytest.mark.parametrize("width", ["\u00b2", "-5", "", "9" * 30, "x"])
def test_a_width_that_is_none(cli, monkeypatch, width) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "digits-ffnn" in cli("models").out


def test_a_narrow_window_has_a_line_for_each_value_and_breaks_no_words(cli, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for command, told in (("models", "  parameters: 19,210"), ("doctor", "  status: ok")):
        lines = cli(command).out.splitlines()
        assert max(len(line) for line in lines if line.strip() not in COMMANDS) <= 40 and told in lines
    assert {line.strip() for line in lines} >= COMMANDS  # each on a single line, so that it can be copied


def column(heading: str, *texts: str, rank: int = 0, is_number: bool = True) -> Column:
    return Column(heading, [cell(text) for text in texts], is_number, rank)


COLUMNS = [
    column("name", "a", "b" * 9, is_number=False),
    column("us", "1.25", "30"),
    column("bound by", "tensor", "DMA issue", rank=1, is_number=False),
    column("bytes", "8 B", "123 kB", rank=2),
    column("kernel", "k" * 40, "argmax", rank=3, is_number=False),
]


def lines_of(width: int, monkeypatch: pytest.MonkeyPatch, columns=COLUMNS, wide: bool = False) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return to_text(lambda console: print_rows(console, "the title", columns, wide), None).splitlines()


def test_columns_are_side_by_side_if_they_fit(monkeypatch) -> None:
    title, head, rule, *rows = lines_of(100, monkeypatch)
    assert title == "the title" and set(rule) == {"-"}
    assert head.split() == ["name", "us", "bound", "by", "bytes", "kernel"]
    assert [row.split()[0] for row in rows] == ["a", "b" * 9]
    # Numbers are right-aligned, text is left-aligned.
    assert rows[0].index("1.25") + 4 == rows[1].index("30") + 2
    assert rows[0].index("tensor") == rows[1].index("DMA") == head.index("bound")


def test_columns_of_the_highest_rank_are_left_out_first(monkeypatch) -> None:
    columns = [*COLUMNS, column("input", "1x2", "2x" * 20, rank=9, is_number=False)]
    _, head, _, *rows, left = lines_of(85, monkeypatch, columns)
    assert head.split() == ["name", "us", "bound", "by", "bytes", "kernel"] and len(rows) == 2
    assert left == "not shown: input (--wide)"
    assert len(lines_of(85, monkeypatch, columns, wide=True)) == 5


def test_a_long_name_keeps_both_ends(monkeypatch) -> None:
    name = f"model.22.{'x' * 90}.conv"
    rows = lines_of(80, monkeypatch, [column("name", name, "b", is_number=False), *COLUMNS[1:]])
    assert max(map(len, rows)) <= 80
    assert rows[3].startswith("model.2") and ".." in rows[3] and "xx.conv" in rows[3] and "tensor" in rows[3]
    wide = lines_of(80, monkeypatch, [column("name", name, "b", is_number=False), *COLUMNS[1:]], wide=True)
    assert name in wide[3]


def test_a_tight_window_has_names_above_their_figures(monkeypatch) -> None:
    lines = lines_of(ONE_LINE - 1, monkeypatch)
    assert lines[1:3] == ["name", "    us  bound by    bytes  kernel"]
    assert lines[4:8:2] == ["a", "b" * 9] and lines[5].split() == ["1.25", "tensor", "8", "B", "k" * 40]
    assert "kernel" not in " ".join(lines_of(60, monkeypatch)[:-1])


def test_messages_end_lines_at_words_and_break_no_commands(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    told = "a peak of 12.5 MB at 30.25 us; keep it with 'trninfer import network.onnx --output network.safetensors' now"
    lines = to_text(lambda console: print_line(console, told), None).splitlines()
    assert lines[-2:] == ["  'trninfer import network.onnx --output network.safetensors'", "  now"]
    assert " ".join(line.strip() for line in lines) == told and len(lines) == 4


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


def test_records_are_printed_as_lines_if_a_table_does_not_fit(monkeypatch) -> None:
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
