"""Runs the commands of docs/tutorial-*.md and fills in their output.

    <!-- file: train.py -->         the fence below it is written to a file
    <!-- run: trninfer models -->   the command, run by a shell; below it, up to `<!-- end -->`, what it printed
    <!-- site: report.html: What is said of it -->   on the site a link to a file that the commands wrote

All commands of a page run in order in a new folder with a link to samples/. This machine's own times and the names of
folders are removed from the output.

`python -m trninfer.tools.update_docs` fills in the pages; `python -m trninfer.tools.tutorials PAGE FOLDER` copies the
files that the site links to into a folder, which is how `mkdocs build` gets them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {page.stem: page for page in sorted((ROOT / "docs").glob("tutorial-*.md"))}
COLUMNS = 80
_STEP = re.compile(
    r"<!-- file: (?P<file>[\w.-]+) -->\n```\w*\n(?P<content>.*?)^```$"
    r"|(?P<head><!-- run: (?P<command>[^\n]+) -->\n).*?(?P<end><!-- end -->)",
    re.M | re.S,
)
_SITE = re.compile(r"<!-- site: ([\w.-]+): ")
_HOST = re.compile(r"\n*(?:^(?:backend sim: .* on this machine|auto took the simulator: .*)\n)+", re.M)
_SHELL = 'trninfer() { "$PYTHON" -m trninfer "$@"; }; python() { "$PYTHON" "$@"; }; '


def fill_tutorial(text: str) -> str:
    """Return a page with the current output of its commands; RuntimeError if one fails."""
    with _folder() as folder:
        return _run(text, folder)


def copy_files(text: str, target: Path) -> list[str]:
    """Run the commands of a page, copy the files that its site links to into a folder, and return their names."""
    names = _SITE.findall(text)
    with _folder() as folder:
        _run(text, folder)
        for name in names:
            shutil.copy(folder / name, target / name)
    return names


def _run(text: str, folder: Path) -> str:
    def step(match: re.Match[str]) -> str:
        if match["file"]:
            (folder / match["file"]).write_text(match["content"], encoding="utf-8")
            return match[0]
        command = match["command"]
        said = _run_command(command, folder)
        shown = f"$ {command}\n{said}".rstrip("\n")
        return f"{match['head']}```console\n{shown}\n```\n{match['end']}"

    return _STEP.sub(step, text)


def _run_command(command: str, folder: Path) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        **{"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TRNINFER_BACKEND": "sim", "PYTHON": sys.executable},
    }
    done = subprocess.run(
        ["sh", "-c", _SHELL + command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = done.stdout.replace(f"{folder}/", "")
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}: {said}")
    return _HOST.sub("\n", said).strip("\n")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trninfer-tutorial-") as name:
        folder = Path(name).resolve()
        (folder / "samples").symlink_to(ROOT / "samples")
        yield folder


if __name__ == "__main__":
    copy_files(Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2]))
