"""The output of --verbose."""

from __future__ import annotations

import logging
import re


def test_nothing_is_said_without_it(cli, feature_model) -> None:
    assert cli("bench", "--model", feature_model, "--format", "json", "-q").err == ""


def test_what_is_done_is_said_on_standard_error(cli, pictures, picture_model) -> None:
    arguments = ("classify", pictures, "--model", picture_model, "--format", "csv", "-q", "--batch-size", 2)
    once, twice = cli(*arguments, "-v"), cli(*arguments, "-vv")
    lines = once.err.splitlines()
    assert all(re.match(r"trninfer: \d+\.\d\d s: ", line) for line in lines)
    for said in (f"read {picture_model}, ", "backend sim: ", "tiny-cnn in float32 on sim, trn2: "):
        assert sum(said in line for line in lines) == 1
    assert "inputs answered" not in once.err and twice.err.count("inputs answered") == 2
    assert once.out == twice.out
    assert cli(*arguments).err == ""  # nothing is left behind
    assert not logging.getLogger("trninfer").handlers


def test_nothing_that_is_said_begins_a_line_of_its_own(cli, picture_model, tmp_path) -> None:
    model = tmp_path / "a\nb\x1b.safetensors"
    model.write_bytes(picture_model.read_bytes())
    outcome = cli("bench", "--model", model, "-v")
    assert "\x1b" not in outcome.err and any(r"a\nb\x1b" in line for line in outcome.err.splitlines())
