"""Text from users and files is escaped in terminals, tables and pages."""

from __future__ import annotations

import json
import re
import string
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trninfer.app.text import lines_of, printable, spell
from trninfer.models import load_model, save_model

ROOT = Path(__file__).resolve().parents[2]
NASTY = "\udfff\ud800 \udc80\x1b[31m\u202e\u009b=a\n\r<script>\"'&"
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(st.sampled_from(NASTY + "\u2028\ufeff" + "é数"))


@given(ANY_TEXT)
def test_printable_is_one_line_without_tricks(text: str) -> None:
    shown = printable(text)
    assert shown == "" or shown.isprintable()
    assert shown.encode() and printable(text, "ascii").isascii() if text else shown == ""
    assert printable(shown) == shown


@given(ANY_TEXT)
def test_spelled_names_are_utf8_and_whole_text_stays(text: str) -> None:
    assert spell(text).encode().decode() == spell(text)
    whole = text.encode("utf-8", "replace").decode()
    assert spell(whole) == whole


@given(st.text(st.sampled_from("abc; \n\x1b"), max_size=2000) | st.lists(st.text(max_size=400)).map("; ".join))
@example("; ".join("a" * 200 for _ in range(100)))
@example("a" * 50_000)
def test_messages_are_lines_of_bounded_length_with_all_that_fits(message: str) -> None:
    lines = lines_of(message)
    assert 1 <= len(lines) <= 21 and all(len(line) <= 300 for line in lines)
    if len(printable(message)) <= 300:
        assert lines == [printable(message)]


def test_commands_in_a_message_stay_whole() -> None:
    command = "python -c 'import torch; torch.save(1); print(2)'"
    assert lines_of(f"{'a' * 200}'s b; {'c' * 40}; run {command}; {'d' * 40}") == [
        f"{'a' * 200}'s b; {'c' * 40}",
        f"  run {command}; {'d' * 40}",
    ]


def test_shortened_text_keeps_its_beginning_and_end(cli, tmp_path) -> None:
    path = tmp_path / ("x" * 200) / ("y" * 200) / "z.safetensors"
    path.parent.mkdir(parents=True)
    first, then = cli("bench", "--model", path).err.splitlines()
    assert first.startswith(f"trninfer: {tmp_path}/xxx") and first.endswith("z.safetensors: no such model")
    assert then.startswith("  use a bundled model ") and len(first) == 300
    path.write_bytes(b"no model")
    (line,) = cli("bench", "--model", path).err.splitlines()
    assert line.endswith("yy/z.safetensors: not a safetensors file, or truncated") and len(line) == 300


def test_errors_of_models_are_short_however_long_their_names_are(cli, tmp_path) -> None:
    names = {"__metadata__": {"a": "b"}, "x" * 50_000: {"dtype": "F32", "shape": [1], "data_offsets": [0, 9]}}
    header = json.dumps(names).encode()
    (tmp_path / "long.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    outcome = cli("bench", "--model", tmp_path / "long.safetensors")
    (line,) = outcome.err.splitlines()
    assert (
        outcome.status == 2
        and len(line) == 300
        and line.endswith("extends beyond the file, which is truncated or corrupt")
    )


@pytest.fixture
def nasty_model(picture_model, tmp_path):
    """Return a network whose name and labels contain all kinds of JSON strings."""
    model = load_model(picture_model)
    labels = tuple(f"{NASTY}{number}" for number in range(10))
    save_model(tmp_path / "nasty.safetensors", replace(model.network, name=NASTY, labels=labels), model.tensors)
    return tmp_path / "nasty.safetensors"


def test_labels_and_names_of_a_model_are_spelled_out(cli, nasty_model, pictures, tmp_path) -> None:
    files = ("--report", tmp_path / "r.html", "--trace", tmp_path / "t.json", "--output", tmp_path / "o.txt")
    for command in (("classify", pictures), ("bench",)):
        outcome = cli(*command, "--model", nasty_model, "--verify", *files)
        assert outcome.status == 0, outcome.err
        texts = [outcome.out, outcome.err] + [path.read_text("utf-8") for path in (files[1], files[5])]
        assert all(char.isprintable() or char in "\n\t" for text in texts for char in text)
        assert r"\udfff\ud800" in texts[3]
        assert not any("<script>\"'" in text for text in texts[2:3])
        document = cli(*command, "--model", nasty_model, "--format", "json").json()
        assert document["model"] == NASTY
        assert set(cli(*command, "--model", nasty_model, "--format", "ndjson").out) <= set(string.printable)


def test_units_are_spelled_in_one_way() -> None:
    """Microseconds are `us`, as in JSON fields, and `kB` is 1,000 bytes, in tables, pages and pictures alike."""
    other = re.compile(r"\u00b5s|\u03bcs|\\u00b5|[\d}] ?(?:KB|usec|mb|Mb|msec)\b")
    files = [path for room in ("app", "api", "inference", "runtime") for path in (ROOT / room).rglob("*.*")]
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if path.suffix in (".py", ".js", ".html") and path.name != "sweep_options.py"  # accepts either unit
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if other.search(line.partition("  # ")[0])
    }
    assert len(files) > 100 and not found
