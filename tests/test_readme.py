"""README.md says what the program does: generated parts are up to date, examples have real options, links lead on."""

import re
import shlex
from pathlib import Path

import pytest
from trninfer.app.main import app, run
from trninfer.tools import update_readme

README = update_readme.README
TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["help", "models"])
def test_generated_parts_are_up_to_date(name) -> None:
    contents = update_readme.BLOCKS[name]()
    assert update_readme.fill(TEXT, {name: contents}) == TEXT, "run python -m trninfer.tools.update_readme help models"


def test_every_part_is_filled_in() -> None:
    for match in re.finditer(r"<!-- generated: (\S+) -->\n(.*?)<!-- end -->", TEXT, re.S):
        assert match[2].strip(), f"{match[1]} is empty: run python -m trninfer.tools.update_readme {match[1]}"
    assert set(re.findall(r"<!-- generated: (\S+) -->", TEXT)) == set(update_readme.BLOCKS)


def test_the_help_has_every_option_and_example(capsys) -> None:
    """What is read off the functions is what --help shows."""
    parts = update_readme.help_block().split("<details>")[1:]
    assert len(parts) == len(app.registered_commands)
    for part in parts:
        name = re.search(r"<code>trninfer (\S+)</code>", part)
        assert name and run([name[1], "--help"]) == 0
        shown = capsys.readouterr().out
        options = set(re.findall(r"^\s+(?:-\w, )?(--[a-z-]+)", shown, re.M)) - {"--help"}
        assert options and set(re.findall(r"^\| `(--[a-z-]+)", part, re.M)) == options
        examples = re.findall(r"^ *(trninfer .*)", part, re.M)
        assert examples and all(example in shown for example in examples)


def commands() -> list[str]:
    """The command lines of the generated help, those that go over two lines as one."""
    fences = re.findall(r"```\n(.*?)```", update_readme.help_block(), re.S)
    lines = [line.strip() for fence in fences for line in fence.replace("\\\n", " ").splitlines()]
    found = [re.search(r"(?:^|\| )(trninfer [^|&;]+)", line) for line in lines]
    return [match[1].strip() for match in found if match]


@pytest.mark.parametrize("command", commands())
def test_examples_have_options_that_there_are(command) -> None:
    words = shlex.split(command)[1:]
    name, options = words[0], [word for word in words if word.startswith("--")]
    known = {
        option
        for part in update_readme.help_block().split("<details>")[1:]
        if f"<code>trninfer {name}</code>" in part
        for option in re.findall(r"^\| `(--[a-z-]+)", part, re.M)
    }
    assert known and set(options) <= known, set(options) - known


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", TEXT) if "://" not in link]
    assert links and [link for link in links if not (README.parent / link).exists()] == []


def test_the_summary_of_accuracy_is_read_off() -> None:
    report = (
        "### Kernels\n\n| a |\n\n### Kernels, summed up\n\n| rows | n |\n| --- | --- |\n| all | 3 |\n\n"
        "### Fitted\n\n| b |\n\n"
        "instructions compared: 3 of 4, largest error 9.9 %\nmean absolute percentage error: 1.50 %\n"
    )
    assert update_readme.summary_of(report) == (
        "| rows | n |\n| --- | --- |\n| all | 3 |\n\n- instructions compared: 3 of 4, largest error 9.9 %\n"
        "- mean absolute percentage error: 1.50 %"
    )
    with pytest.raises(RuntimeError, match="prints something else"):
        update_readme.summary_of(report.replace("summed up", "added up"))


def test_only_the_named_part_is_filled_in(monkeypatch, tmp_path: Path, capsys) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- generated: one -->\nold\n<!-- end -->\nb\n<!-- generated: two -->\n<!-- end -->\n")
    monkeypatch.setattr(update_readme, "README", readme)
    monkeypatch.setattr(update_readme, "BLOCKS", {"one": lambda: "new\\1", "two": lambda: "more"})
    assert update_readme.main(["--check", "one"]) == 1 and "old" in readme.read_text()
    assert "not up to date: one" in capsys.readouterr().out
    assert update_readme.main(["one"]) == 0
    assert readme.read_text() == (
        "a\n<!-- generated: one -->\nnew\\1\n<!-- end -->\nb\n<!-- generated: two -->\n<!-- end -->\n"
    )
    assert update_readme.main(["one", "--check"]) == 0 and update_readme.main([]) == 0
    assert "more\n<!-- end -->" in readme.read_text()
    with pytest.raises(SystemExit):
        update_readme.main(["three"])


def test_a_readme_without_the_part_is_told() -> None:
    with pytest.raises(ValueError, match="block 'models'"):
        update_readme.check_names("nothing\n", ["models"])
    with pytest.raises(ValueError, match="block 'odd'"):
        update_readme.check_names("<!-- generated: odd -->\n<!-- end -->\n", [])
