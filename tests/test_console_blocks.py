"""Commands that pages show: run from an empty folder, or named here with what they need.

Tutorials are run by tests/tools/test_tutorials.py, examples of help by their own tests.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from trninfer.app.main import open_app
from typer.main import get_command

DOCS = Path(__file__).resolve().parent.parent / "docs"
ELSEWHERE = {  # pages whose commands need what a test has not
    "chip.md": "a chip, or AWS's wheels",
    "cluster.md": "a cluster, or a folder of photos",
    "predictions.md": "other people's repositories; benchmarks/published_rows.py prints what they gave",
    "serving.md": "a server beside the test: tests/inference/serving",
    "two-cores.md": "a network of 500 MB",
}
OTHERS = frozenset({"commands.md", *(page.name for page in DOCS.glob("tutorial-*.md"))})
_COMMAND = re.compile(r"^(?:\$ )?(trninfer [^\n#]*)", re.M)
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)


def commands(page: Path) -> list[str]:
    """The commands of trninfer in the fences of a page, lines that are continued in one."""
    text = page.read_text(encoding="utf-8")
    fences = [fence.replace("\\\n", " ") for fence in _FENCE.findall(text)]
    return [command.strip() for fence in fences for command in _COMMAND.findall(fence)]


PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name not in OTHERS and commands(page)]


def test_every_page_with_commands_is_run_or_named_with_a_reason():
    assert {page.name for page in PAGES} == {"simulator.md", *ELSEWHERE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_give_them(page):
    known = get_command(open_app())
    for command in commands(page):
        _, name, *words = shlex.split(command)
        options = {option for parameter in known.commands[name].params for option in parameter.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options | {"--help"}, command


def run(command: str, folder: Path) -> str:
    """The output of a command of trninfer, which may say that a check failed."""
    words = [sys.executable, "-m", "trninfer", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def without_figures(text: str) -> str:
    """A text with figures masked, which change with the clock."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "0", text)).strip()


@pytest.mark.slow
def test_the_first_page_of_kernel_authors_from_an_empty_folder(tmp_path):
    pytest.importorskip("libcst")
    text = (DOCS / "simulator.md").read_text(encoding="utf-8")
    old, _, mended = re.findall(r"```python\n(.*?)```", text, re.S)[:3]
    blocks = re.findall(r"```\n\$ (?:mkdir new\n\$ )?([^\n]*)\n(.*?)```", text, re.S)
    assert len(blocks) == 4
    (tmp_path / "softmax.py").write_text(old, encoding="utf-8")
    (tmp_path / "new").mkdir()
    folder = tmp_path
    for number, (command, shown) in enumerate(blocks):
        if number == 2:  # the page mends the kernel, which moves lines
            before = "        nisa.activation(dst=powers, op=nl.exp, data=tile)\n"
            migrated = (folder / "softmax.py").read_text(encoding="utf-8")
            assert before in migrated
            (folder / "softmax.py").write_text(migrated.replace(before, mended), encoding="utf-8")
        found = without_figures(run(command, folder))
        first = without_figures(shown.splitlines()[0])
        assert first in found, f"{command}: {found}"
        folder = tmp_path / "new"
