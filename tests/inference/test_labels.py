"""Correct classes from files of any kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.labels import SUFFIXES, read_labels
from trninfer.models.errors import InputError

LABELS = ("red", "green", "blue")


@pytest.fixture
def write(tmp_path: Path):
    def writing(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writing


def npy(values: list[int] | np.ndarray, dtype: str) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.array(values, dtype))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("y.bin", np.array([2, 0, 1], "<i4").tobytes()),
        ("y.npy", npy([2, 0, 1], "int64")),
        ("y.npy", npy([2, 0, 1], ">u2")),
        ("y.json", "[2, 0, 1]"),
        ("y.json", '["blue", "red", "1"]'),
        ("y.csv", "2\n0\n1\n"),
        ("y.csv", "label\nblue\nred\ngreen\n"),
        ("y.csv", "# by hand\r\n\r\nblue\r\nred\r\ngreen\r\n"),
        ("y.txt", "blue\nred\ngreen"),
        ("y.tsv", '"blue"\nred\ngreen\n'),
    ],
)
def test_labels_of_any_kind(write, name: str, content: bytes | str) -> None:
    labels = read_labels(write(name, content), 3, LABELS)
    assert labels.dtype == np.int32 and labels.tolist() == [2, 0, 1]


def test_a_label_takes_precedence_over_a_number(write) -> None:
    assert read_labels(write("y.txt", "5\n7\n"), 2, ("7", "6", "5")).tolist() == [2, 0]
    assert read_labels(write("y.json", "[5, 7]"), 2, ("7", "6", "5")).tolist() == [2, 0]
    assert read_labels(write("y.txt", "a\na\n"), 2, ("a", "a")).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("y.bin", bytes(16), "16 bytes, but int32 labels for 3 rows take 12"),
        ("y.bin", np.array([2, 0, 3], "<i4").tobytes(), "row 2 has the label 3; 0 to 2 are allowed"),
        ("y.npy", npy([2, 0], "int64"), "2 labels, but there are 3 rows"),
        ("y.npy", npy([2, 0, -1], "int8"), "row 2 has the label -1"),
        ("y.npy", npy([1, 2, 0], "float32"), "expected an array of integers of shape \\[rows\\]"),
        (
            "y.npy",
            npy(np.ones((2, 3), order="F"), "int64"),
            r"expected an array of integers of shape \[rows\], got int64 of shape \[2, 3\]",
        ),
        ("y.npy", b"junk", "not a readable array"),
        ("y.json", "{}", "a list of labels"),
        ("y.json", "[1.5, 0, 1]", "a list of labels"),
        ("y.json", "[true, 0, 1]", "a list of labels"),
        ("y.json", "[1,", "not valid JSON"),
        ("y.json", "[" * 100000, "not valid JSON"),
        ("y.json", '["red", "pink", "red"]', "item 1: 'pink' is neither a label of the model"),
        ("y.csv", "red\npink\nred\n", "line 2: 'pink' is neither a label of the model nor a class number"),
        ("y.csv", "red,1\n", "line 1: found 2 values; expected one per line"),
        ("y.csv", "red\n", "1 labels, but there are 3 rows"),
        ("y.csv", "label\nred\nred\n", "line 1: 'label' is neither a label"),
        ("y.csv", b"\xff\n", "not text in UTF-8"),
        ("y.png", b"", "must have the suffix .bin, .npy, .csv, .tsv, .txt, .json, not .png"),
    ],
)
def test_labels_that_are_refused(write, name: str, content: bytes | str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labels(write(name, content), 3, LABELS)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_labels(tmp_path / "y.csv", 3, LABELS)


@given(st.sampled_from(SUFFIXES), st.binary(max_size=60) | st.text('012redgn,\n[]"', max_size=40).map(str.encode))
def test_any_content_is_read_or_reported(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzzed-labels{suffix}"
    path.write_bytes(content)
    try:
        labels = read_labels(path, 3, LABELS)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert labels.shape == (3,) and set(labels.tolist()) <= {0, 1, 2}


def test_json_of_names_that_json_wrote(write) -> None:
    assert read_labels(write("y.json", json.dumps(["green"] * 3)), 3, LABELS).tolist() == [1, 1, 1]
