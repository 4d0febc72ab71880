"""The manual page is up to date, names every command and option, and groff reads it without warnings."""

import shutil
import subprocess

import pytest
from trninfer.tools.command_help import read_commands
from trninfer.tools.man_page import man_page, roff
from trninfer.tools.update_docs import MAN_PAGE


def test_the_manual_page_is_up_to_date() -> None:
    assert MAN_PAGE.read_text(encoding="utf-8") == man_page(), "run python -m trninfer.tools.update_docs man"


def test_man_page_names_every_command_and_option() -> None:
    text = man_page()
    commands = read_commands()
    assert len(commands) >= 10
    for command in commands:
        assert f'.SH "TRNINFER {command.name.upper()}"' in text
        assert command.options and all(f'.B "{roff(option.usage)}"' in text for option in command.options)


def test_text_is_shown_as_it_is() -> None:
    assert roff("a\\b --c\n.d\n'e") == "a\\eb \\-\\-c\n\\&.d\n\\&'e"


def test_groff_reads_it() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    shown = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-P-c"], input=man_page(), capture_output=True, encoding="utf-8"
    )
    assert shown.returncode == 0 and shown.stderr == ""
    assert "trninfer classify samples/ --format json --output answers.json" in shown.stdout
