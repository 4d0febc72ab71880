"""Elements are escaped, and numbers have units."""

import pytest
from trninfer.app.reports.html_markup import Markup, element, fragment, microseconds, percent, quantity, shape_text


def test_units() -> None:
    assert [percent(x) for x in (0.25, 0.0025, 0.00001, 0)] == ["25.0 %", "0.25 %", "< 0.01 %", "0.0 %"]
    assert [quantity(x, "B") for x in (0, 999, 1000, 12345, 2.5e12)] == ["0 B", "999 B", "1 kB", "12.3 kB", "2.5 TB"]
    assert [microseconds(x) for x in (1.234, 123.45, 12345.6)] == ["1.23", "123.5", "12,346"]
    assert element("a", "<", None, ["x", element("b")], class_="&", hidden=True, id=None) == (
        '<a class="&amp;" hidden>&lt;x<b></b></a>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8"/>'


def test_text_is_escaped_and_markup_is_not() -> None:
    assert fragment("<b>&'\"", Markup("<i>"), ["a\x1b", (x for x in "\udcff\n")]) == (
        "&lt;b&gt;&amp;&#x27;&quot;<i>a\\x1b\\xff\\n"
    )
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert element("a", title='"><script>') == '<a title="&quot;&gt;&lt;script&gt;"></a>'


def test_attributes_and_elements_that_hold_nothing() -> None:
    attributes = {"data_value": 0, "aria_label": "", "hidden": False, "id": None, "open": True}
    assert element("td", **attributes) == '<td data-value="0" aria-label="" open></td>'
    assert element("img", src="x") == '<img src="x"/>' and element("circle", element("title", "t")) == (
        "<circle><title>t</title></circle>"
    )
    assert isinstance(element("p"), Markup) and fragment(None, "", []) == ""


@pytest.mark.parametrize(
    ("share", "text"), [(0.0001, "0.01 %"), (0.00994, "0.99 %"), (0.00995, "1.0 %"), (1, "100.0 %"), (1e-9, "< 0.01 %")]
)
def test_percents(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.4, "999 B"), (999.6, "1 kB"), (99_949, "99.9 kB"), (99_951, "100 kB"), (3e9, "3 GB"), (5e15, "5e+03 TB")],
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value, "B") == text


def test_microseconds_and_shapes() -> None:
    assert [microseconds(x) for x in (0, 99.99, 100, 999.94, 1000)] == ["0.00", "99.99", "100.0", "999.9", "1,000"]
    assert shape_text((1, 3, 224)) == "1\u00d73\u00d7224" and shape_text(()) == ""
