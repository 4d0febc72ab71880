"""Class names in files of several kinds."""

from __future__ import annotations

import json

import pytest
from trninfer.models.errors import ModelError
from trninfer.models.importing.labels import imagenet_labels, parse_labels

NAMES = ("cat", "dog, the", "fish")


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("cat\ndog, the\nfish\n", ".txt"),
        ("\ufeffcat\r\ndog, the\r\nfish", ""),
        (json.dumps(NAMES), ".json"),
        (json.dumps(NAMES), ""),
        (json.dumps({"0": "cat", "1": "dog, the", "2": "fish"}), ".json"),
        (json.dumps({"2": "fish", "0": "cat", "1": "dog, the"}), ""),
        (json.dumps({"id2label": {"0": "cat", "1": "dog, the", "2": "fish"}, "architectures": ["X"]}), ".json"),
        (json.dumps({"dog, the": 1, "fish": 2, "cat": 0}), ".json"),
        (json.dumps({"0": ["n1", "cat"], "1": ["n2", "dog, the"], "2": ["n3", "fish"]}), ".json"),
        (json.dumps({"labels": list(NAMES)}), ".json"),
        ('label\ncat\n"dog, the"\nfish\n', ".csv"),
        ('cat\n"dog, the"\nfish\n', ".csv"),
        ('0,cat\n1,"dog, the"\n2,fish\n', ".csv"),
        ('index,name,more\n2,fish,x\n0,cat,y\n1,"dog, the",z\n', ".csv"),
        ("id\tlabel\n2\tfish\n0\tcat\n1\tdog, the\n", ".tsv"),
    ],
)
def test_labels(text: str, suffix: str) -> None:
    assert parse_labels(text.encode(), suffix) == NAMES


@pytest.mark.parametrize(
    ("content", "suffix", "says"),
    [
        (b"\xff\xfe\x00", "", "not a UTF-8 text file"),
        (b" \n", "", "contains no labels"),
        (b"cat\n\ndog\n", ".txt", "line 2 is empty"),
        (b"cat\n\x1b[2J\n", ".txt", "line 2 is not printable"),
        (b"[1, {}]", ".json", "the JSON must be a list of labels"),
        (b"[" * 100_000, ".json", "not valid JSON"),
        (b'{"0": "cat", "2": "dog"}', ".json", "the JSON must be a list of labels"),
        (b"{}", ".json", "the JSON must be a list of labels"),
        (b"index,name\n0,cat\n1\n", ".csv", "rows have different lengths"),
        (b"label\n", ".csv", "the table has no rows, or its rows have different lengths"),
    ],
)
def test_file_without_labels_is_refused(content: bytes, suffix: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        parse_labels(content, suffix)
    assert "\n" not in str(error.value)


def test_the_names_of_imagenet_stay_lines() -> None:
    names = imagenet_labels()
    assert parse_labels("\n".join(names).encode(), ".txt") == names and len(names) == 1000
