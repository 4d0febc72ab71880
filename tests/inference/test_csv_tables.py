"""Tables of numbers as text: recognising a header, messages, and invalid files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.columns import Columns
from trninfer.inference.csv_tables import MAX_LINE, csv_rows
from trninfer.inference.features import read_features
from trninfer.models.errors import ArgumentError, InputError

ROWS = [[2, 2, 3, 4], [5, 6, 7, 8]]
BODY = "2,2,3,4\n5,6,7,8\n"
COUNTS = "0,1,2,3\n"


def read(text: str | bytes, header: str = "auto", delimiter: str = ",") -> tuple[list[list[float]], tuple[str, ...]]:
    """Return the rows of a text, and the message about it."""
    content = text.encode() if isinstance(text, str) else text
    rows = csv_rows("x.csv", io.BytesIO(content), header, delimiter)
    return next(rows.batches(1000)).tolist(), rows.notes


@pytest.mark.parametrize("text", [BODY, "2,2,3,4\n\n5,6,7,8", "\ufeff2, 2,3e0,4\r\n5,6,7,8\r\n"])
def test_rows_without_a_header(text: str) -> None:
    assert read(text) == (ROWS, ())


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,b,c,d", "a, b, c, d"),
        ("0,1,2,3", "0, 1, 2, 3"),  # pandas
        ("id,0,1,2", "id, 0, 1, 2"),
        (",0,1,2", ", 0, 1, 2"),
        (",a,b,c", ", a, b, c"),
        ('"x 1","x,2",y z,d', "x 1, x,2, y z, d"),
    ],
)
def test_lines_that_name_columns_are_headers_and_are_reported(header: str, names: str) -> None:
    rows, notes = read(f"{header}\n{BODY}")
    assert rows == ROWS
    assert notes == (f'line 1 ({names}) is read as a header; header "no" reads it as a row',)


@pytest.mark.parametrize("first", ["0,0,2,3", "2,3,4,5", "0,1,3,2", "0.0,1.0,2.0,3.0", "0,1,2,2", "3,2,1,0"])
def test_lines_of_numbers_are_rows(first: str) -> None:
    rows, notes = read(f"{first}\n{BODY}")
    assert rows == [[float(cell) for cell in first.split(",")], *ROWS] and notes == ()


@pytest.mark.parametrize("first", ["1,2,3,4", "0,1", "0,1,2"])
def test_lines_that_may_be_either_are_rows_and_reported(first: str) -> None:
    row = [float(cell) for cell in first.split(",")]
    rows, notes = read(f"{first}\n{first}\n")
    assert rows == [row, row]
    assert notes == (f'line 1 ({first.replace(",", ", ")}) is read as a row; header "yes" reads it as a header',)
    assert read(f"{first}\n{first}\n", "yes")[0] == [row] and read(f"{first}\n{first}\n", "no") == ([row, row], ())


def test_a_header_by_order() -> None:
    assert read(COUNTS + BODY, "no") == ([[0, 1, 2, 3], *ROWS], ())
    rows, notes = read("9,9,9,9\n" + BODY, "yes")
    assert rows == ROWS and notes == ("line 1 (9, 9, 9, 9) is read as a header",)
    with pytest.raises(ValueError, match="line 1, column 1: 'a' is not a number"):
        read("a,b,c,d\n" + BODY, "no")
    with pytest.raises(ArgumentError, match="header is 'maybe'; allowed: auto, yes, no"):
        read_features(Path("x.csv"), 4, "maybe")


def test_a_single_column_of_counts_is_rows() -> None:
    assert read("0\n1\n2\n")[0] == [[0], [1], [2]]


def test_comments_before_the_rows_are_left_out_and_reported() -> None:
    rows, notes = read("# made by us\n#a,b,c,d\n" + BODY)
    assert rows == ROWS and notes == ("skipped as comments (#): lines 1, 2",)
    rows, notes = read("# made by us\n" + COUNTS + BODY)
    assert rows == ROWS and notes[0] == "skipped as comments (#): line 1" and notes[1].startswith("line 2 (0, 1, 2, 3)")
    buffer = io.BytesIO()
    np.savetxt(buffer, ROWS, delimiter=",", header="a,b,c,d")
    assert read(buffer.getvalue())[0] == ROWS
    with pytest.raises(ValueError, match="line 3, column 1: '#no'"):
        read(BODY + "#no,1,2,3\n")


BAD = {
    "1,2,3,4\n1,2,3\n": "line 2: 3 values, but 4 before it",
    "a,b,c\n1,2,3,4\n": "line 2: 4 values, but line 1, read as a header, has 3",
    "1,2,3,4\n1,2,x,4\n": "line 2, column 3: 'x' is not a number",
    "1,2,1O,4\n1,2,3,4\n": "line 1, column 3: '1O' is not a number",
    "a,b,c,d\na,b,c,d\n": "line 2, column 1: 'a' is not a number",
    "1,2,,4\n": "line 1, column 3: is empty",
    "1,2,3,4,\n": "line 1: ends with a comma, as if a value were missing",
    "a,b,c,d,\n1,2,3,4,\n": "line 1, column 1: 'a' is not a number",
    "NA,NA,NA,NA\n1,2,3,4\n": "line 1, column 1: 'NA', a missing value; all must be numbers",
    "1,2,NA,4\n1,2,3,4\n": "line 1, column 3: 'NA', a missing value",
    ",,,\n1,2,3,4\n": "line 1, column 1: is empty",
    "a,NA,c,d\n1,2,3,4\n": "line 1, column 1: 'a' is not a number",
    "1;2;3;4\n1;2;3;4\n": "line 1: semicolons between the values; expected commas",
    "1;2;3;4\n": "line 1: semicolons between the values",
    "a;b\n1;2\n": "line 2: semicolons between the values",
    "1,5;2;3;4\n": "line 1: semicolons between the values",
    "1\t2\t3\t4\n": "line 1: tabs between the values; expected commas",
    "1 2 3 4\n": "line 1: spaces between the values; expected commas",
    "1,2,3,4\n1,2,1_0,4\n": "line 2, column 3: '1_0' is not a number",
    "1,2,3,4\n1,2,\u0661,4\n": "line 2, column 3: '\u0661' is not a number",
    "": "contains no rows of numbers",
    "# nothing\n": "contains no rows of numbers",
    "a,b\n": "contains no rows of numbers below line 1, which is read as a header",
    COUNTS: "contains no rows of numbers below line 1, which is read as a header",
}


@pytest.mark.parametrize("text", BAD)
def test_refusals(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        read(text)
    assert BAD[text] in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe1,2", "not a table of numbers encoded in UTF-8"),
        (b"1" * (MAX_LINE + 1), "a line is longer than"),
        (b"1,2\n", r"shape \[1, 2\], but the network expects \[rows, 4\]$"),
        (b"0,1,2,3,4\n0,1,2,3,4\n1,5,6,7,8\n", "its first column looks like row numbers; remove it"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "x.csv", 4)


def test_tabs(tmp_path: Path) -> None:
    text = BODY.replace(",", "\t")
    assert read("a\tb\tc\td\n" + text, delimiter="\t")[0] == ROWS
    (tmp_path / "x.tsv").write_text(text)
    with read_features(tmp_path / "x.tsv", 4) as rows:
        assert next(rows.batches(9)).tolist() == ROWS
    with pytest.raises(ValueError, match="commas between the values; expected tabs"):
        read("1,5\t2,5\n", delimiter="\t")


def test_csv_of_pandas_is_read_row_by_row() -> None:
    pandas = pytest.importorskip("pandas")
    values = np.random.default_rng(0).random((5, 6))
    for columns in (None, list("abcdef")):
        text = pandas.DataFrame(values, columns=columns).to_csv(index=False)
        assert np.allclose(read(text)[0], values)
        assert np.allclose(read(pandas.DataFrame(values).to_csv(index=False, header=False))[0], values)


@given(
    st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 4).map(list), min_size=1, max_size=5),
    st.sampled_from(["", "a,b,c,d\n", "0,1,2,3\n", "# x\n", ",a,b,c\n"]),
)
def test_no_row_is_dropped_or_added(rows: list[list[float]], head: str) -> None:
    text = head + "".join(",".join(map(repr, row)) + "\n" for row in rows)
    found, notes = read(text)
    assert found == rows and len(notes) == bool(head)


def test_a_table_is_held_within_the_budget_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit includes ids, which used to be unlimited."""
    monkeypatch.setattr("trninfer.models.budget.MIN_BYTES", 1000)
    monkeypatch.setattr("trninfer.models.budget.EXPANSION", 1)
    numbers = b"1,2,3\n" * 100
    with pytest.raises(ValueError, match="a table up to line 42 takes 1,008 bytes, which exceeds the limit of 1,000"):
        csv_rows("x.csv", io.BytesIO(numbers))
    with pytest.raises(ValueError, match="a table with its ids takes"):
        csv_rows("x.csv", io.BytesIO(b"name,a\n" + b"id,1\n" * 100), columns=Columns(id_column="name"))
