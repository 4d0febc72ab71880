"""Words for people: no text of anyone's reaches a terminal, a table or a page as it is."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.app.text import printable, spell
from trninfer.models import load_model, save_model

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


@pytest.fixture
def nasty_model(picture_model, tmp_path):
    """A network whose name and labels hold what JSON can write."""
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
