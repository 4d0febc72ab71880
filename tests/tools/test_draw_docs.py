"""The pictures in docs/ show the current program, at the width of a terminal."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from PIL import Image
from trninfer.tools import draw_docs

SVG = "{http://www.w3.org/2000/svg}"


def test_a_terminal_keeps_spaces_and_escapes() -> None:
    picture = ElementTree.fromstring(draw_docs.draw_terminal("trninfer x", "a  <b>\n\nc & d\n"))
    lines = [(text.get("y"), (text.text or "").replace(draw_docs.NO_BREAK, " ")) for text in picture.iter(f"{SVG}text")]
    assert [line for _, line in lines] == ["$ trninfer x", "a  <b>", "c & d"]
    heights = [int(y or 0) for y, _ in lines]
    assert heights[2] - heights[1] == 2 * draw_docs.LINE  # the empty line between them occupies a line
    assert int(picture.get("height") or 0) > heights[2]


@pytest.mark.slow
def test_the_terminal_shows_what_classify_prints() -> None:
    """The labels of the samples, and the launches with their times, which depend on the timing model."""
    picture = ElementTree.parse(draw_docs.DOCS / "terminal.svg")
    lines = [(text.text or "").replace(draw_docs.NO_BREAK, " ") for text in picture.iter(f"{SVG}text")]
    shown = draw_docs.without_host_time(draw_docs.run_trninfer(*draw_docs.COMMAND)).splitlines()

    def words(text: list[str]) -> list[list[str]]:
        return [re.findall(r"[a-z_]{3,}", line) for line in text if line.strip()]

    assert lines[0] == f"$ trninfer {' '.join(draw_docs.COMMAND[:2])}"
    assert words(lines[1:]) == words(shown), "run python -m trninfer.tools.draw_docs"
    assert max(map(len, lines)) <= draw_docs.COLUMNS


def test_the_report_is_a_picture_of_the_window() -> None:
    with Image.open(draw_docs.DOCS / "report.png") as picture:
        assert picture.size == draw_docs.WINDOW
        assert len(set(picture.convert("L").tobytes())) > 50  # not an empty page
