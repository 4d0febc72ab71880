"""Run the commands of docs/tutorial-*.md and fill in their output.

    <!-- file: train.py -->         the fence below it is written to a file
    <!-- run: trninfer models -->   a shell runs the command; its output follows, up to `<!-- end -->`
    <!-- once: trninfer load ... -->   the same for output whose numbers differ each time: the page keeps its
                               output as long as the command prints the same apart from numbers
    <!-- site: report.html: its description -->     on the site, a link to a file that the commands wrote

All commands of a page run in order in a new folder with a link to samples/. Times of the host machine and the names of
folders are removed from the output.

`python -m trninfer.tools.update_docs` fills in the pages. `python -m trninfer.tools.tutorials PAGE FOLDER` copies the
files to which the site links into a folder, for `mkdocs build`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {page.stem: page for page in sorted((ROOT / "docs").glob("tutorial-*.md"))}
COLUMNS = 80
_STEP = re.compile(
    r"<!-- file: (?P<file>[\w.-]+) -->\n```\w*\n(?P<content>.*?)^```$"
    r"|(?P<head><!-- (?P<kind>run|once): (?P<command>[^\n]+) -->\n)(?P<old>.*?)(?P<end><!-- end -->)",
    re.M | re.S,
)
_SITE = re.compile(r"<!-- site: ([\w.-]+): ")
_HOST = re.compile(r"\n*(?:^(?:backend sim: .* on this machine|auto chose the simulator: .*)\n)+", re.M)


def fill_tutorial(text: str) -> str:
    """Return a page with the current output of its commands. Raise RuntimeError if one fails."""
    with _folder() as folder:
        return _run(text, folder)


def copy_files(text: str, target: Path) -> list[str]:
    """Run the commands of a page, copy the files that its site version links to into a folder, and return their
    names."""
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
        output = _run_command(command, folder)
        block = f"```console\n{f'$ {command}{chr(10)}{output}'.rstrip()}\n```\n"
        is_kept = match["kind"] == "once" and _form(match["old"]) == _form(block)
        return f"{match['head']}{match['old'] if is_kept else block}{match['end']}"

    return _STEP.sub(step, text)


def _form(text: str) -> str:
    """Return an output without its numbers, and without the spaces and rules whose lengths depend on them."""
    return re.sub(r"\s+", " ", re.sub(r"-{2,}|[\d.,]+(e-\d+)?", "", text))


def _run_command(command: str, folder: Path) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        **{"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TRNINFER_BACKEND": "sim"},
        "PATH": f"{folder / '.bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TRNINFER_CACHE": str(folder / ".cache"),
    }
    completed = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = completed.stdout.replace(f"{folder}/", "")
    if completed.returncode:
        raise RuntimeError(f"{command}: exit status {completed.returncode}: {output}")
    return _HOST.sub("\n", output).strip("\n")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trninfer-tutorial-") as name:
        folder = Path(name).resolve()
        (folder / "samples").symlink_to(ROOT / "samples")
        (folder / ".bin").mkdir()
        for name, words in (("trninfer", "-m trninfer"), ("python", "")):  # `exec`: a server gets the process ID
            script = folder / ".bin" / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            script.chmod(0o755)
        try:
            yield folder
        finally:
            _end_left_over(folder)


def _end_left_over(folder: Path) -> None:
    """Terminate the processes whose IDs the commands of a page left in .pid files."""
    for file in folder.glob("*.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(file.read_text()), signal.SIGTERM)


if __name__ == "__main__":
    copy_files(Path(sys.argv[1]).read_text(encoding="utf-8"), Path(sys.argv[2]))
