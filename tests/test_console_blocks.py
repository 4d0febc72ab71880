"""Every console block of every page, run from an empty folder; blocks that cannot be run are listed here with the
reason.

tests/tools/test_tutorials.py runs the generated blocks of the tutorials.
"""

from __future__ import annotations

import re
from itertools import takewhile

import pytest
from console_blocks import ROOT, Command, Folder, Written, find_pages, read_steps
from trninfer.app.main import open_app
from typer.main import get_command

NOT_RUN = {  # the beginning or content of a command, or of a part of one between `&&`: what it requires
    r"pip install|python -m pip|venv\b|git clone|yolo export": "a network",
    r"apt-get|sudo |wget |\. /etc/os-release|\| sudo|echo \"deb": "root and a network",
    r"(?:source|export) .*/(?:bin|aws)|torch_neuronx|--(backend neuron|compare-backends)|--compile-only": "a chip",
    r"selftest-trn2|^trninfer profile ": "what a chip gave: tests/app/test_simulate_archive.py, test_profile.py",
    r"--cluster|^ray start": "a cluster of Ray: tests/runtime/cluster",
    r"asst4|lab6|\.\./part2|\.\./nki_conv2d|--test-|test_harness|--basic|run_benchmark": "a course's repository",
    r"--sources sources|nki-library|-p stand_ins": "other people's repositories",
    r"yolov8n|yolo\.safetensors|lraspp|fcn\.|deeplab": "a network of ultralytics or torchvision: test_detect.py",
    r"siamese|vgg16|resnet\.safetensors": "a network of hundreds of megabytes, or of two inputs",
    r"models\.example\.org|0\.0\.0\.0": "an address that others reach: tests/app/test_serve.py",
    r"^pytest$|^ruff |^mypy$|suite cs149-part2": "minutes, or is this test",
    r"--requests 1000": "minutes",
    r"^trninfer load .*(--rate|--duration)": "a machine that answers at that rate: tests/app/test_load.py",
    r"--input-size 160": "a network whose sizes are open: tests/app/bench",
    r"tools\.digits": "the fonts that drew the held-out pictures: tests/tools/digits",
    r"predicted\.json|heldout|digits\.json": "files that a command above wrote, which is not run",
}
STATUS = {  # commands that report a failure, as stated on their page
    "trninfer migrate --check --output new/ softmax.py": 1,
    "trninfer simulate --lines 0 --sanitize=numeric softmax.py": 1,
}
# Benchmarks, the self-test, imports in the reference, and pages that also run the self-test.
BY_HAND = {"docs/chip.md", "docs/commands.md:9", "docs/commands.md:14", "docs/commands.md:19", "docs/tutorial-chip.md"}
_INLINE = re.compile(r"`(trninfer [a-z][^`]*)`")


def reason(part: str) -> str | None:
    """Return why a part of a command line is not run."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, part)), None)


def runnable(command: Command) -> str:
    """Return the parts of a command line that can be run here."""
    return " && ".join(part for part in command.line.split(" && ") if not reason(part))


def read_commands() -> list[Command]:
    """Return the commands of all pages."""
    return [step for page in find_pages() for step in read_steps(page) if isinstance(step, Command)]


def read_runs() -> dict[str, list[Command | Written]]:
    """Return the steps that run in one folder, by page; each block of the reference runs separately."""
    runs: dict[str, list[Command | Written]] = {}
    for page in find_pages():
        for step in read_steps(page):
            by_block = page.name == "commands.md" and isinstance(step, Command)
            name = str(page.relative_to(ROOT)) + (f":{step.block}" if by_block else "")
            if isinstance(step, Written) or runnable(step):
                runs.setdefault(name, []).append(step)
    return {name: steps for name, steps in runs.items() if any(isinstance(step, Command) for step in steps)}


RUNS = read_runs()
CASES = [
    pytest.param(name, marks=pytest.mark.by_hand if name in BY_HAND else pytest.mark.slow, id=name) for name in RUNS
]


def without_figures(text: str) -> str:
    """Return a text without the numbers that change with the timing model."""
    return re.sub(r"\s+", " ", re.sub(r"-{2,}|[\d.,]+", "0", text)).strip()


@pytest.mark.parametrize("name", CASES)
def test_blocks_run_from_an_empty_folder(name, tmp_path):
    pytest.importorskip("libcst")
    folder = Folder(tmp_path)
    try:
        for step in RUNS[name]:
            if isinstance(step, Written):
                step.write(tmp_path)
                continue
            status, printed = folder.run(runnable(step))
            assert status == STATUS.get(step.line, 0), f"{step.line}: exit status {status}: {printed}"
            masked = without_figures(printed)
            for line in step.shown:
                assert without_figures(line) in masked, f"{step.line} does not print {line!r} but:\n{printed}"
    finally:
        folder.close()


def test_a_reason_that_no_command_has_is_not_listed():
    assert set(RUNS) >= BY_HAND
    parts = [part for command in read_commands() for part in command.line.split(" && ")]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, part) for part in parts), pattern
    assert set(STATUS) <= {step.line for steps in RUNS.values() for step in steps if isinstance(step, Command)}


def test_commands_of_all_pages_have_the_options_that_pages_give_them():
    """Includes commands that are not run, and those within sentences."""
    known = get_command(open_app()).commands
    found = [(page.name, line) for page in find_pages() for line in _INLINE.findall(page.read_text(encoding="utf-8"))]
    found += [(command.page, command.line) for command in read_commands()]
    checked = 0
    for page, line in found:
        for words in re.findall(r"(?:^|&& |\| )trninfer (.*?)(?=$| && | \|)", line):
            name, *options = re.sub(r"""['"`\\]""", "", words).split()
            if name == "simulate":  # options after FILE belong to the script
                options = [*takewhile(lambda word: not word.endswith(".py"), options)]
            given = {word.partition("=")[0] for word in options if word.startswith("--")}
            allowed = {option for parameter in known[name].params for option in parameter.opts} | {"--help"}
            assert given <= allowed, (page, line)
            checked += 1
    assert checked > 200


def test_files_and_mends_of_a_page_are_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("console_blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    fences = (
        "<!-- file: a.txt -->\n```python\n1\n2\n```",
        "<!-- mend: a.txt: 2 -->\n```\n3\n```",
        "```\n$ cat a.txt\n1\n```",
    )
    page.write_text("\n".join(fences))
    written, mended, command = read_steps(page)
    written.write(tmp_path)
    mended.write(tmp_path)
    assert (tmp_path / "a.txt").read_text() == "1\n3\n"
    assert command == Command("page.md", 2, "cat a.txt", ("1",))
