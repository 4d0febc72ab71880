"""README.md and docs/ match the program: generated parts are up to date, options exist, and links are valid."""

import re
import shlex
from pathlib import Path

import pytest
from trninfer import __version__
from trninfer.app.main import open_app, run
from trninfer.tools import update_docs

ROOT = update_docs.ROOT
PAGES = [*update_docs.PAGES, ROOT / "CONTRIBUTING.md", ROOT / "tools" / "README.md"]
BLOCKS = update_docs.find_blocks(update_docs.PAGES)


@pytest.mark.parametrize("name", ["help", "models", "lowering"])
def test_generated_parts_are_up_to_date(name) -> None:
    text = BLOCKS[name].read_text(encoding="utf-8")
    contents = {name: update_docs.BLOCKS[name]()}
    assert update_docs.fill(text, contents) == text, f"run python -m trninfer.tools.update_docs {name}"


def test_every_part_has_a_page_and_is_filled_in() -> None:
    assert set(BLOCKS) == set(update_docs.BLOCKS)
    for name, page in BLOCKS.items():
        match = re.search(rf"<!-- generated: {name} -->\n(.*?)<!-- end -->", page.read_text(encoding="utf-8"), re.S)
        assert match and match[1].strip(), f"{name} is empty: run python -m trninfer.tools.update_docs {name}"


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 12 * 1024


def test_every_page_of_docs_is_linked_from_their_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages and pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", index))


_FILE = re.compile(r"(?<![\w./*-])((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|json|csv|md|safetensors))(?![\w*])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_docs_exist(page: Path) -> None:
    """Checks paths that begin with a folder of the repository, except in links, which another test checks."""
    text = re.sub(r"<!-- generated: published -->.*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.S)
    named = {name for name in _FILE.findall(text) if (ROOT / name.split("/")[0]).is_dir()}
    named -= {
        "models/layers/channel_flip.py",
        "lowering/rules/channel_flip.py",
    }  # docs/adding.md shows how to write them
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_changelog_knows_the_version() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)


def test_the_help_has_every_option_and_example(capsys) -> None:
    """The generated page matches the output of --help."""
    parts = update_docs.help_block().split("<details>")[1:]
    assert len(parts) == len(open_app().registered_commands)
    for part in parts:
        name = re.search(r"<code>trninfer (\S+)</code>", part)
        assert name and run([name[1], "--help"]) == 0
        shown = capsys.readouterr().out
        options = set(re.findall(r"^ {2}(?:-\w, )?(--[a-z-]+)", shown, re.M)) - {"--help"}
        assert options and set(re.findall(r"^\| `(--[a-z-]+)", part, re.M)) == options
        examples = re.findall(r"^ *(trninfer .*)", part, re.M)
        assert examples and all(example in shown for example in examples)


def commands(help_block: str) -> list[str]:
    """Return the command lines in the generated help, joining those that span two lines."""
    fences = re.findall(r"```\n(.*?)```", help_block, re.S)
    lines = [line.strip() for fence in fences for line in fence.replace("\\\n", " ").splitlines()]
    found = [re.search(r"(?:^|\| )(trninfer [^|&;]+)", line) for line in lines]
    return [match[1].strip() for match in found if match]


def test_examples_have_options_that_there_are() -> None:
    block = update_docs.help_block()
    for command in commands(block):
        words = shlex.split(command)[1:]
        # the script's own options follow
        script = next((i for i, word in enumerate(words) if word.endswith(".py")), len(words))
        name, options = words[0], [word.partition("=")[0] for word in words[:script] if word.startswith("--")]
        known = {
            option
            for part in block.split("<details>")[1:]
            if f"<code>trninfer {name}</code>" in part
            for option in re.findall(r"^\| `(--[a-z-]+)", part, re.M)
        }
        assert known and set(options) <= known, f"{command}: {set(options) - known}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))  # code may look like a link
    links = re.findall(r"\]\(([^)]+)\)", text)
    for link in (link for link in links if "://" not in link):
        target, _, anchor = link.partition("#")
        path = (page.parent / target) if target else page
        assert path.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}, link


def test_sentences_of_accuracy_are_read_off() -> None:
    report = (
        "### Kernels, summary\n\n| rows | number | mean absolute error % | family left out, mean % |\n"
        "| --- | --- | --- | --- |\n| all | 3 | 5.3 | 12.1 |\n| trn2 | 2 | 4.0 | 9.0 |\n\n"
        "instructions, mean absolute percentage error: 7.62 %\nmean absolute percentage error: 1.50 %\n"
    )
    assert update_docs.sentences_of(report) == (
        "For 3 published times of kernels, the mean error is 5.3 %, or 12.1 % if all\nversions of a kernel are "
        "excluded from tuning. For single instructions, it is 7.6 %."
    )
    for missing in ("| all |", "instructions, "):
        with pytest.raises(RuntimeError, match="does not have the expected form"):
            update_docs.sentences_of(report.replace(missing, "| none |"))


def test_the_summary_of_accuracy_is_read_off() -> None:
    report = (
        "### Kernels\n\n| a |\n\n### Kernels, summary\n\n| rows | n |\n| --- | --- |\n| all | 3 |\n\n"
        "### Fitted\n\n| b |\n\n"
        "instructions compared: 3 of 4, largest error 9.9 %\nmean absolute percentage error: 1.50 %\n"
    )
    assert update_docs.summary_of(report) == (
        "| rows | n |\n| --- | --- |\n| all | 3 |",
        "- instructions compared: 3 of 4, largest error 9.9 %\n- mean absolute percentage error: 1.50 %",
    )
    assert update_docs.table_of(report, "Fitted") == "| b |"
    with pytest.raises(RuntimeError, match="no table 'Kernels, summary'"):
        update_docs.summary_of(report.replace("summary", "added up"))
    with pytest.raises(RuntimeError, match="does not have the expected form"):
        update_docs.summary_of(report.replace("mean absolute", "mean"))


def test_only_the_named_part_is_filled_in(monkeypatch, tmp_path: Path, capsys) -> None:
    page, other = tmp_path / "README.md", tmp_path / "other.md"
    page.write_text("a\n<!-- generated: one -->\nold\n<!-- end -->\nb\n")
    other.write_text("<!-- generated: two -->\n<!-- end -->\n")
    monkeypatch.setattr(update_docs, "PAGES", (page, other))
    monkeypatch.setattr(update_docs, "BLOCKS", {"one": lambda: "new\\1", "two": lambda: "more"})
    monkeypatch.setattr(update_docs, "TUTORIALS", {})  # test_tutorials.py runs them
    monkeypatch.setattr(update_docs, "MAN_PAGE", tmp_path / "trninfer.1")
    assert update_docs.main(["--check", "one"]) == 1 and "old" in page.read_text()
    assert "not up to date: one" in capsys.readouterr().out
    assert update_docs.main(["one"]) == 0
    assert page.read_text() == "a\n<!-- generated: one -->\nnew\\1\n<!-- end -->\nb\n"
    assert "more" not in other.read_text()
    assert update_docs.main(["one", "--check"]) == 0 and update_docs.main([]) == 0
    assert other.read_text() == "<!-- generated: two -->\nmore\n<!-- end -->\n"
    with pytest.raises(SystemExit):
        update_docs.main(["three"])


def test_a_part_that_nobody_can_fill_in_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: odd -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match=r"page\.md: block 'odd' is not among help"):
        update_docs.find_blocks([page])
    page.write_text("<!-- generated: help -->\n<!-- end -->\n" * 2)
    with pytest.raises(ValueError, match=r"block 'help' is there twice"):
        update_docs.find_blocks([page])
