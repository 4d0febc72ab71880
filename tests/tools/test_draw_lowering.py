"""docs/lowering.svg matches the current passes."""

from xml.etree import ElementTree

from trninfer.lowering.decisions import Kind
from trninfer.lowering.passes import all_passes
from trninfer.tools import draw_lowering

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_up_to_date() -> None:
    drawn = draw_lowering.PICTURE.read_text(encoding="utf-8")
    assert drawn == draw_lowering.draw(), "run python -m trninfer.tools.draw_lowering"


def test_passes_are_those_of_the_pipeline_in_their_order() -> None:
    names = [each.name for each in all_passes(())]
    assert [box.name for box in draw_lowering.boxes() if box.name in names] == names


def test_each_kind_of_choice_is_named_once() -> None:
    shown = [name for box in draw_lowering.boxes() for name in box.decision.split(", ") if name]
    assert sorted(shown) == sorted(kind.value for kind in Kind)


def test_words_stay_in_their_boxes() -> None:
    """Estimated from the width of an average character, with a tolerance of a tenth."""
    picture = ElementTree.fromstring(draw_lowering.draw())
    for text in picture.iter(f"{SVG}text"):
        x, words = int(text.get("x") or 0), text.text or ""
        end = draw_lowering.LEFT + draw_lowering.BOX if x < draw_lowering.SIDE else draw_lowering.WIDTH
        assert x + 6.2 * len(words) < end, words


def test_a_clause_ends_at_its_first_stop() -> None:
    assert draw_lowering.clause_of("Do it: now, and then.") == "Do it"
    assert draw_lowering.clause_of("Give 0.5 a\nlong line. More.") == "Give 0.5 a long line"
