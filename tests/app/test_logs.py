"""The output of --verbose."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest


def test_logs_are_silent_without_the_option(cli, feature_model) -> None:
    assert cli("bench", "--model", feature_model, "--format", "json", "-q").err == ""


def test_logs_are_written_to_standard_error(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "csv", "-q", "--batch-size", 2)
    once, twice = cli(*arguments, "-v"), cli(*arguments, "-vv")
    lines = once.err.splitlines()
    assert all(re.match(r"trninfer: \d+\.\d\d s: ", line) for line in lines)
    for said in (f"read {picture_model}, ", "backend sim: ", "tiny-cnn in float32 on sim, trn2: "):
        assert sum(said in line for line in lines) == 1
    assert "inputs answered" not in once.err and twice.err.count("inputs answered") == 2
    assert once.out == twice.out
    assert cli(*arguments).err == ""  # nothing is left behind
    (handler,) = logging.getLogger("trninfer").handlers
    assert isinstance(handler, logging.NullHandler)


def test_log_message_cannot_begin_a_new_line(cli, picture_model, tmp_path) -> None:
    model = tmp_path / "a\nb\x1b.safetensors"
    model.write_bytes(picture_model.read_bytes())
    outcome = cli("bench", "--model", model, "-v")
    assert "\x1b" not in outcome.err and any(r"a\nb\x1b" in line for line in outcome.err.splitlines())


@pytest.mark.parametrize("verbose", [0, 1])
def test_faults_are_logged_with_their_traceback_only_if_asked(verbose) -> None:
    code = f"""
import logging
from trninfer.app.logs import log_to_stderr
log_to_stderr({verbose})
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("trninfer.lowering").exception("no plan")
"""
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    if verbose:
        assert re.match(r"trninfer: \d+\.\d\d s: no plan\nTraceback .*\nZeroDivisionError", written, re.DOTALL)
    else:
        assert written == ""
