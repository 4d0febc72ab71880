"""Columns of tables: features, ids and correct classes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from trninfer.inference.columns import Columns, parse_names
from trninfer.inference.features import read_feature_bytes, read_features
from trninfer.models.errors import InputError

NAMES = ("doc", "b", "a", "class")
TABLE = "doc,b,a,class\nx,1,2,cat\ny,3,4,\nz,5,6,dog\n"


def read(text: str, **named):
    return read_feature_bytes("t.csv", text.encode(), 2, "auto", Columns(**named))


def values(rows) -> list[list[float]]:
    return np.concatenate(list(rows.batches(2))).tolist()


def test_ids_labels_and_features_in_the_order_named() -> None:
    rows = read(TABLE, features=("a", "b"), id_column="doc", label_column="class")
    assert values(rows) == [[2, 1], [4, 3], [6, 5]]
    assert rows.sides.ids == ["x", "y", "z"] and rows.sides.labels == ["cat", "", "dog"]
    rows = read(TABLE, drop=("doc", "class"))
    assert values(rows) == [[1, 2], [3, 4], [5, 6]] and rows.sides is None
    rows = read(TABLE, features=("a", "b"))
    assert rows.sides is None


def test_the_one_column_of_text_is_the_id_and_that_is_reported() -> None:
    for text in (
        TABLE.replace(",class", "").replace(",cat", "").replace(",dog", "").replace("4,", "4"),
        "x,1,2\ny,3,4\n",
    ):
        rows = read(text)
        assert rows.sides.ids[:2] == ["x", "y"] and rows.sides.labels is None
        assert any("is used as the id" in note for note in rows.notes)
    rows = read(TABLE, label_column="class")
    assert rows.sides.ids == ["x", "y", "z"] and "column 'doc' contains text" in rows.notes[-1]
    assert read("1,2\n3,4\n").sides is None


def test_columns_are_numbers_without_a_header() -> None:
    rows = read("7,1,2\n8,3,4\n", id_column="0", features=("2", "1"))
    assert values(rows) == [[2, 1], [4, 3]] and rows.sides.ids == ["7", "8"]


def test_a_line_with_all_names_is_a_header_although_others_are_numbers() -> None:
    rows = read("0,1,doc\n5,6,x\n", id_column="doc")
    assert values(rows) == [[5, 6]] and rows.sides.ids == ["x"]


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        (TABLE, {"id_column": "no"}, "has no column 'no'; its columns are:  doc, b, a, class"),
        (TABLE, {"features": ("a", "a")}, "column 'a' is given twice"),
        (TABLE, {"features": ("a", "b"), "drop": ("a",)}, "column 'a' is given twice"),
        (TABLE, {"id_column": "doc", "label_column": "doc"}, "cannot be both the id and the label"),
        (TABLE, {"drop": NAMES}, "no columns are left as features, because all are excluded"),
        (TABLE, {}, "line 2, column 1: 'x' is not a number; exclude columns that are not features with --drop"),
        (TABLE, {"features": ("doc", "a")}, "line 2, column 1: 'x' is not a number"),
        ("a,a,b\n1,2,3\n", {"id_column": "a"}, "2 columns have the name 'a'"),
        ("n,a,b\nx,1,2\nx,3,4\n", {}, "rows 0 and 1 have the same id 'x'"),
        ("n,a,b\nx,1,2\n,3,4\n", {}, "row 1: its id, column 'n', is empty"),
        ("n,a,b\nx,1,2\ny,3\n", {}, "line 3: 2 values, but 3 before it"),
        ("n,a,b\nx,1\n", {"id_column": "n"}, "line 2, column 1: 'x' is not a number"),
        (
            "a,b,class\n1,2,0\n",
            {},
            "the array has the shape [1, 3], but the network expects [rows, 2]; exclude columns that are not",
        ),
        ("1;2,5\n", {}, "semicolons between the values"),
        ("7,1,2\n", {"id_column": "3"}, "has no column '3'; its columns are:  0, 1, 2"),
    ],
)
def test_wrong_columns(text: str, named: dict, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read(text, **named)
    assert "\n" not in str(caught.value)


def test_long_lists_of_columns_are_cut_short() -> None:
    names = ",".join(f"c{number}" for number in range(100))
    with pytest.raises(InputError, match=r"c29, \.\.\. and 70 more$"):
        read(f"{names}\n{','.join('1' * 100)}\n", drop=("x",))


def test_arrays_have_no_columns_to_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"columns can be selected from \.csv, \.tsv, \.parquet, not from \.npy$"):
        read_features(tmp_path / "x.npy", 2, columns=Columns(drop=("a",)))
    assert len(read_features(tmp_path / "x.npy", 2, columns=Columns())) == 2


def test_names_in_a_list() -> None:
    assert parse_names("--drop", 'a, "b,c",d') == ("a", "b,c", "d") and parse_names("--drop", None) == ()
    for text in ("", 'a,"b'):
        with pytest.raises(ValueError, match=r"^--drop .* expected column names"):
            parse_names("--drop", text)
