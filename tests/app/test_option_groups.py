"""Groups of options as parameters of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest
import typer
from trninfer.app.errors import UsageError
from trninfer.app.main import open_app
from trninfer.app.option_groups import format_of, takes_options, whole
from trninfer.app.options import AnswerFormat, FormatOption, LabelFormat, ReportFormat

Name = Annotated[str | None, typer.Option("--name")]


@dataclass(frozen=True)
class Group:
    """A group with one option."""

    size: Annotated[int, typer.Option("--size")] = 3


def test_a_group_becomes_one_parameter_a_field() -> None:
    given = []

    @takes_options("the help")
    def command(name: Name = None, *, group: Group) -> None:
        given.append((name, group))

    assert list(inspect.signature(command).parameters) == ["name", "size"]
    assert command.__doc__ == "the help"
    command(name="a", size=5)
    assert given == [("a", Group(5))]


def test_options_inside_optional_are_found() -> None:
    """Python 3.10 does this if the default is None; it is spelled out here so that every version tests it."""

    @takes_options("the help")
    def command(name: Name | None = None, *, group: Group) -> None:
        pass

    assert command.__annotations__["name"] == Name


def test_whole_numbers_are_plain_digits(cli) -> None:
    for text in ("1_0", "\u0661", "\uff11", " 1", "1.0", "1e1", "", "-1", "9" * 30, "9" * 5000):
        with pytest.raises(typer.BadParameter, match="is not an integer from"):
            whole(0)(text)
    outcome = cli("classify", "--batch-size", "1_0")
    assert outcome.status == 2 and outcome.out == "" and len(outcome.err.splitlines()) == 1
    assert "Invalid value for '--batch-size'" in outcome.err and "is not an integer from" in outcome.err


@pytest.mark.parametrize("text, expected", [("1", 1), ("+4", 4), ("007", 7), ("65536", 65536)])
def test_a_whole_number(text: str, expected: int) -> None:
    assert whole(1, 65536)(text) == expected


def test_no_number_of_an_option_is_left_to_typer() -> None:
    """Typer would accept `1_0` and digits of other scripts."""
    for command in open_app().registered_commands:
        assert command.callback is not None
        for parameter in inspect.signature(command.callback, eval_str=True).parameters.values():
            kind, *settings = get_args(parameter.annotation) or (parameter.annotation,)
            if {int, float} & {kind, *get_args(kind)} and not settings[0].count:  # -v counts its occurrences
                assert settings[0].parser is not None, parameter


@pytest.mark.parametrize("option", ["--dtype", "--target", "--form", "--launches"])
def test_an_invalid_choice_is_refused(cli, option) -> None:
    outcome = cli("bench", option, "sideways")
    assert outcome.status == 2 and len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith(f"trninfer: Invalid value for '{option}': 'sideways' is not one of")


@pytest.mark.parametrize(
    ("name", "kind", "form"),
    [
        ("a.csv", FormatOption, "csv"),
        ("a.b.JSON", FormatOption, "json"),
        ("a.jsonl", Literal["table", "ndjson"], "ndjson"),
        ("a.parquet", LabelFormat, "parquet"),
        ("a.json", AnswerFormat, "json"),
        ("a.md", ReportFormat, "markdown"),
        ("csv", FormatOption, "table"),
        ("a.txt", FormatOption, "table"),
        ("run.2026-11", FormatOption, "table"),
        (None, FormatOption, "table"),
    ],
)
def test_the_suffix_of_a_file_determines_the_format(name: str | None, kind: object, form: str) -> None:
    assert format_of(None if name is None else Path(name), kind) == form


@pytest.mark.parametrize("name", ["a.parquet", "a.md", "b.HTML", "a.csv.gz", "a.xlsx"])
def test_a_suffix_of_another_format_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"\.csv, \.json, \.ndjson, \.jsonl or \.txt") as refused:
        format_of(Path(name), FormatOption)
    assert name in str(refused.value) and "--format table|json|csv|ndjson" in str(refused.value)


@pytest.mark.parametrize(
    ("words", "suffix"),
    [
        (("classify", "x.png"), ".md"),
        (("detect", "x.png"), ".parquet"),
        (("segment", "x.png", "--model", "x.onnx"), ".parquet"),
        (("models",), ".md"),
        (("doctor",), ".md"),
        (("bench",), ".parquet"),
        (("ffnn", "--data", "x.csv"), ".html"),
        (("load", "http://127.0.0.1:1"), ".md"),
    ],
)
def test_commands_refuse_suffixes_of_formats_that_they_do_not_write(cli, tmp_path, words, suffix) -> None:
    target = tmp_path / f"answers{suffix}"
    outcome = cli(*words, "--output", target)
    assert outcome.status == 2 and outcome.out == "" and not target.exists()
    assert len(outcome.err.splitlines()) == 1 and f"this command does not write {suffix} files" in outcome.err


def test_each_command_writes_the_format_of_the_suffix(cli, tmp_path, feature_model) -> None:
    """A table in a file called .csv would be taken for answers that --resume can extend."""
    (tmp_path / "x.csv").write_text("1,2,3,4,5,6\n")
    answers = ("ffnn", "--data", tmp_path / "x.csv", "--model", feature_model, "--quiet")
    for words in (answers, ("models",), ("bench", "--model", feature_model), ("doctor",)):
        for suffix, first in ((".csv", ","), (".ndjson", "{"), (".json", "{"), (".txt", "")):
            target = tmp_path / f"answers{suffix}"
            outcome = cli(*words, "--output", target)
            assert outcome.status == 0 and first in target.read_text().splitlines()[0], outcome.err
        cli(*words, "--output", tmp_path / "table.csv", "--format", "table")  # as the user asked
        assert "," not in (tmp_path / "table.csv").read_text().splitlines()[0]
    assert cli("bench", "--model", feature_model, "--output", tmp_path / "a.md").status == 0
    assert "|" in (tmp_path / "a.md").read_text()
    outcome = cli(*answers, "--output", tmp_path / "table.csv", "--resume")
    assert outcome.status == 2 and "table.csv: not a csv report" in outcome.err
    outcome = cli(*answers, "--output", tmp_path / "table.csv", "--resume", "--format", "table")
    assert outcome.status == 2 and "reports can be extended, not --format table" in outcome.err
    target = tmp_path / "answers.csv"
    before = cli(*answers, "--output", target), target.read_text()
    assert cli(*answers, "--output", target, "--resume").status == 0 and target.read_text() == before[1]
