"""Fill in the generated parts of README.md and docs/, between `<!-- generated: NAME -->` and `<!-- end -->`, and write
the manual page docs/trninfer.1. Run it in a clone.

- `python -m trninfer.tools.update_docs` fills in all parts. The accuracy takes a minute or two, all others take
  seconds.
- `python -m trninfer.tools.update_docs help models` fills in only these parts; `tutorial-study` fills in the outputs on
  that page.
- `python -m trninfer.tools.update_docs man` writes only the manual page.
- `--check` writes nothing, and exits with 1 if a part is not up to date.

`draw_docs.py` and `draw_lowering.py` draw the pictures in docs/.
"""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from ..app.output import write_output
from ..benchmarks.published_rows import saved as saved_predictions
from ..benchmarks.published_rows import table as published_table
from ..models.bundled import bundled_models
from ..models.checks import describe_shape
from .api_reference import api_block
from .command_help import CommandHelp, read_commands, split_example, unwrap
from .draw_docs import run_trninfer
from .instruction_table import instructions_block
from .man_page import man_page
from .tutorials import PAGES as TUTORIALS
from .tutorials import fill_tutorial

ROOT = Path(__file__).resolve().parent.parent
MAN_PAGE = ROOT / "docs" / "trninfer.1"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
LOWERED = (
    *("bench", "--model", "digits-cnn", "--batch-size", "8", "--dtype", "bfloat16", "--target", "trn2"),
    *("--show-lowering", "--quiet", "--backend", "sim"),
)
SEPARATOR = "\\|"  # a bar inside a table cell
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.S)


def help_block() -> str:
    """Return every command with its options and examples, folded."""
    return "\n\n".join(_command(command) for command in read_commands())


def _command(command: CommandHelp) -> str:
    name, first = command.name, html.escape(command.summary, quote=False)
    lines = [
        f"| `{option.usage.replace('|', SEPARATOR)}` | {_markdown(option.text).replace('|', SEPARATOR)} |"
        for option in command.options
    ]
    summary = f"<details>\n<summary><code>trninfer {name}</code>: {first}</summary>"
    paragraphs = [_fenced(text) if text.startswith("\b") else _markdown(unwrap(text)) for text in command.paragraphs]
    return "\n\n".join([summary, *paragraphs, "\n".join(["| option | |", "|---|---|", *lines]), "</details>"])


def _markdown(text: str) -> str:
    """Escape text for Markdown."""
    return re.sub(r"([*_`<>\[\]])", r"\\\1", text)


def _fenced(text: str) -> str:
    """Return a paragraph with preserved line breaks as a fenced block; its first line is `\\b`, and its second one is
    the title."""
    first, body = split_example(text)
    return f"{_markdown(first)}\n\n```\n{body}\n```"


def models_block() -> str:
    """Return the bundled models, with the accuracy stored in their files."""
    lines = ["| model | reads | parameters | file | accuracy on held-out data |", "|---|---|---|---|---|"]
    for model in bundled_models():
        scores = "; ".join(
            f"{100 * score.fraction:.2f} % ({score.correct} of {score.total}) of {score.on}" for score in model.accuracy
        )
        lines.append(
            f"| `{model.name}` | {describe_shape(model.network.input.shape)} | {model.parameters:,} | "
            f"{model.file_bytes / 1000:.0f} kB | {scores} |"
        )
    return "\n".join(lines)


@cache
def _accuracy_report() -> str:
    """Return the output of the comparison with published measurements."""
    command = [sys.executable, "-m", "trninfer.benchmarks.latency_accuracy", "--markdown"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def accuracy_table() -> str:
    """Return the table of prediction errors of each kernel relative to published measurements, and its summary
    lines."""
    table, ends = summary_of(_accuracy_report())
    return f"{table}\n\n{ends}"


def accuracy_sentences() -> str:
    """Return the two sentences about prediction errors in the README."""
    return sentences_of(_accuracy_report())


def sentences_of(report: str) -> str:
    """Return two sentences on the errors of kernels and instructions, from the output of `latency_accuracy
    --markdown`."""
    header, _, total = (
        [cell.strip() for cell in line.strip("| ").split("|")] for line in summary_of(report)[0].splitlines()[:3]
    )
    row = dict(zip(header, total))
    instructions = re.search(r"^instructions, mean absolute percentage error: ([\d.]+) %$", report, re.M)
    if row.get("rows") != "all" or instructions is None:
        raise RuntimeError("the output of latency_accuracy does not have the expected form")
    return (
        f"For {row['number']} published times of kernels, the mean error is {row['mean absolute error %']} %, or "
        f"{row['family left out, mean %']} % if all\nversions of a kernel are excluded from tuning. "
        f"For single instructions, it is {float(instructions[1]):.1f} %."
    )


def versions_table() -> str:
    """Return a table of the versions of one kernel, with their predicted and measured order and ratios."""
    return table_of(_accuracy_report(), "Versions of one kernel")


def changes_table() -> str:
    """Return the table of changes between versions of a kernel, measured and predicted."""
    return table_of(_accuracy_report(), "Changes from version to version")


def table_of(report: str, title: str) -> str:
    """Return the table below a title in the output of `latency_accuracy --markdown`."""
    table = re.search(rf"### {re.escape(title)}\n\n((?:\|.*\n)+)", report)
    if table is None:
        raise RuntimeError(f"latency_accuracy prints no table {title!r}")
    return table[1].rstrip()


def summary_of(report: str) -> tuple[str, str]:
    """Return the table of summaries in the output of `latency_accuracy --markdown`, and its last lines as a list."""
    table = table_of(report, "Kernels, summary")
    pattern = re.compile(r" error: [\d.]+ %$|^instructions compared|^kernels within")
    ends = [line for line in report.splitlines() if pattern.search(line)]
    if not ends or not ends[-1].startswith("mean absolute percentage error"):
        raise RuntimeError("the output of latency_accuracy does not have the expected form")
    return table, "\n".join(f"- {line}" for line in ends)


def lowering_block() -> str:
    """Return the output of `bench --show-lowering` for a network."""
    return f"```\n{run_trninfer(*LOWERED).rstrip()}\n```"


def published_block() -> str:
    """Return the table of published kernels whose times were predicted from their original source."""
    return "\n".join(published_table(saved_predictions()))


BLOCKS: dict[str, Callable[[], str]] = {
    "help": help_block,
    "api": api_block,
    "models": models_block,
    "instructions": instructions_block,
    "lowering": lowering_block,
    "published": published_block,
    "accuracy": accuracy_sentences,
    "accuracy-table": accuracy_table,
    "versions-table": versions_table,
    "changes-table": changes_table,
}


def find_blocks(pages: Iterable[Path]) -> dict[str, Path]:
    """Return the page of each block. Raise ValueError for an unknown or repeated block."""
    blocks: dict[str, Path] = {}
    for page in pages:
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            name = match[2]
            if name not in BLOCKS or name in blocks:
                problem = "is there twice" if name in blocks else f"is not among {', '.join(BLOCKS)}"
                raise ValueError(f"{page.name}: block {name!r} {problem}")
            blocks[name] = page
    return blocks


def fill(text: str, contents: Mapping[str, str]) -> str:
    """Return `text` with the contents of its marked blocks replaced."""

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}{contents[match[2]]}\n{match[3]}" if match[2] in contents else match[0]

    return _BLOCK.sub(replace, text)


def _is_stale(name: str, pages: Mapping[str, Path], check: bool) -> bool:
    """Return True if a part was not up to date. Unless `check`, update it."""
    page = TUTORIALS[name] if name in TUTORIALS else pages.get(name, MAN_PAGE)
    contents = {name: BLOCKS[name]()} if name in pages else {}
    # read the page only now, because computing the contents may have taken minutes
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    filled = fill_tutorial(text) if name in TUTORIALS else man_page() if name == "man" else fill(text, contents)
    if filled != text and not check:
        write_output(filled, page)
    return filled != text


def main(arguments: Sequence[str] | None = None) -> int:
    """Update or check the pages, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"parts: {', '.join((*BLOCKS, *TUTORIALS))}; by default all; man: docs/trninfer.1",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; report what is out of date")
    options = parser.parse_args(arguments)
    try:
        pages = find_blocks(PAGES)
    except ValueError as error:
        parser.error(str(error))
    known = [*pages, *TUTORIALS, "man"]
    for name in options.names:
        if name not in known:
            parser.error(f"no page has a block {name!r}; available: {', '.join(known)}")
    stale = [name for name in options.names or known if _is_stale(name, pages, options.check)]
    if stale and options.check:
        print(f"not up to date: {', '.join(stale)} (python -m trninfer.tools.update_docs)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
