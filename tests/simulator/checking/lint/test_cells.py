"""Code cells as Python: magics become strings and are restored."""

import ast

import pytest
from trninfer.simulator.checking.lint.cells import Cells


def cells(*sources):
    return Cells.of({"cells": [{"cell_type": "code", "source": source} for source in sources]})


@pytest.mark.parametrize(
    "source",
    [
        "",
        "%matplotlib inline\nx = 1",
        "files = !ls -l\nfirst, rest = %timeit -o x",
        "!pip install \\\n  nki\nx = 1",
        "if True:\n    !ls\nelse:\n\t%pwd\n",
        "np.zeros?\n?np\nnp.ones??",
        "%%bash\nls (not Python)\n",
        "%%time\nx = 1\n\n",
        'print(\'%d\'\n      % 3)\nx = """\n%not a magic\n!nor this\n"""\n%magic',
        "x = 4 \\\n% 3\n",
        "s = 'jupyter magic 1'\n!ls",
        "s = 'jupyter cell 1'\n'jupyter cell 2'\n",
        "!pip install \\\r\n  nki\r\nx = 4 \\\r\n% 3\r\n%pwd\r\n",
        "%%bash\r\nls (not Python)\r\n",
        "%%time\r\nx = 1\ny = 2\r\n\n%pwd",
    ],
)
def test_a_cell_is_converted_to_python_and_back(source):
    found = cells("x = 0", source, "y = 1")
    ast.parse(found.text)
    assert found.split(found.text) == {1: "x = 0", 2: source, 3: "y = 1"}


def test_percent_within_a_statement_is_not_a_magic():
    assert "% 3" in cells("print('%d'\n      % 3)").text
    assert "% 3" in cells("x = 4 \\\n% 3").text


def test_lines_have_the_places_that_the_notebook_shows():
    found = cells("!pip install \\\n  nki\nx = 1", "y")
    places = dict(zip(found.text.splitlines(), found.places))
    assert places["x = 1"] == (1, 3) and places["y"] == (2, 1)


def test_files_that_cells_write_are_reported():
    found = cells("%%writefile a.py\nx = 1\n", "%%writefile a.txt\nx")
    assert found.files == [(1, "x = 1\n")]


def test_a_lost_cell_is_refused():
    found = cells("a", "!ls", "b")
    for text in (found.text.replace("'jupyter magic 1'\n", ""), found.text + found.text):
        with pytest.raises(ValueError, match="have changed"):
            found.split(text)


def test_literals_like_placeholders_stay_as_they_are():
    sources = {1: "s = 'jupyter magic 1'\n!ls", 2: "t = 'jupyter cell 1', 'jupyter2 magic 1'", 3: "%pwd"}
    found = cells(*sources.values())
    assert found.split(found.text) == sources
    assert found.place_in(found.text, 5) == (2, 1)


def test_edited_cells_keep_their_line_ends():
    found = cells("a = 1\r\nb = 2\r\n", "c = 3\nd = 4", "e = 5\r\nf = 6\ng = 7\r\n!ls")
    new = found.text.replace("b = 2", "b = 20\nbb = 21").replace("d = 4", "d = 40\n").replace("g = 7", "g = 70")
    assert found.split(new) == {
        1: "a = 1\r\nb = 20\r\nbb = 21\r\n",
        2: "c = 3\nd = 40\n",
        3: "e = 5\r\nf = 6\ng = 70\r\n!ls",
    }
