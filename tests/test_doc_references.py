"""The docs refer only to existing options, constants, classes and folders."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("api", "app", "inference", "runtime", "lowering", "models", "kernels", "simulator", "tools", "benchmarks")
OTHER_TOOLS = {  # options of other programs that sentences mention
    *("--config-settings", "--help", "--nki-simulator", "--nki-update-baselines", "--page", "--path", "--seed"),
    *("--platform-target", "--profile", "--profile_name", "--region", "--size", "--strict", "--test-mode"),
    *("--data-binary", "--hypothesis-profile", "--test_maxpool"),
}
_CODE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]*")
_NAME = re.compile(r"(?:[A-Z][A-Z_]{3,}|_?(?:[A-Z][a-z]+){2,})")  # a constant or a class


def prose_of(page: Path) -> str:
    """Return a page without its code blocks, generated parts and tables of evidence from other projects."""
    text = re.sub(r"<!-- generated.*?<!-- end -->|```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


@pytest.fixture(scope="module")
def options() -> set[str]:
    """Return the options of all commands, from the generated page that another test compares with the code."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(--[a-z-]+)", page, re.M)) | OTHER_TOOLS


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Return all words of the product's code."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")] + [ROOT / "__init__.py"]
    return {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def wrong_references(text: str, options: set[str], words: set[str]) -> list[str]:
    """Return the options, constants and classes in inline code that exist neither in a command nor in the code."""
    codes = _CODE.findall(text)
    names = [name for code in codes if _NAME.fullmatch(name := code.removesuffix("()")) and name not in words]
    return names + [option for code in codes for option in _OPTION.findall(code) if option not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_and_names_in_sentences_exist(page: Path, options: set[str], words: set[str]) -> None:
    assert wrong_references(prose_of(page), options, words) == []


def test_the_map_of_folders_lists_all_folders_with_code() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where things are")[2]
    listed = set(re.findall(r"\[(\w+)/\]\(\1\)", table))
    assert listed == {*FOLDERS, "weights", "samples", "tests", "docs"}


def test_a_wrong_reference_is_found() -> None:
    text = "Set `--no-such-option` in `BACKENDS`, or derive from `LoweredThing`; `--model` and `Pass` exist."
    assert wrong_references(text, {"--model"}, {"Pass"}) == ["BACKENDS", "LoweredThing", "--no-such-option"]
