"""Correct labels of pictures by folder, table and pattern, and invalid sources of labels."""

import json
from pathlib import Path

import pytest
from trninfer.inference.picture_labels import PictureLabels
from trninfer.models.errors import InputError

LABELS = ("cat", "dog", "7")


def test_the_folder_that_a_picture_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("cat/old", "1"):
        (tmp_path / "val" / folder).mkdir(parents=True)
    labels = PictureLabels(str(tmp_path / "val"), LABELS)
    monkeypatch.chdir(tmp_path)
    assert labels.class_of("val/cat/old/a.png") == labels.class_of(str(tmp_path / "val/cat/b.png")) == 0
    assert labels.class_of("val/1/dog.png") == 1  # a label may be given as its number
    assert labels.class_of("val/loose.png") is None and labels.class_of("elsewhere/cat/a.png") is None
    (tmp_path / "val" / "bird").mkdir()
    with pytest.raises(InputError, match="'bird' is neither a label of the model nor a class number"):
        PictureLabels(str(tmp_path / "val"), LABELS)
    with pytest.raises(InputError, match="contains no subfolders"):
        PictureLabels(str(tmp_path / "val" / "cat" / "old"), LABELS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.csv", "a.png,cat\nsub/b.png,dog\n"),
        ("l.csv", "label,probability,input\ncat,1,a.png\ndog,0.4,sub/b.png\n"),
        ("l.tsv", "Filename\tClass\na.png\t0\nsub/b.png\t1\n"),
        ("l.json", json.dumps({"a.png": "cat", "sub/b.png": 1})),
        ("l.json", json.dumps([{"image": "a.png", "target": 0}, {"image": "sub/b.png", "target": "dog"}])),
    ],
)
def test_tables_of_names(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    labels = PictureLabels(str(tmp_path / name), LABELS)
    assert labels.class_of("a.png") == labels.class_of("./a.png") == labels.class_of("/far/a.png") == 0
    assert labels.class_of("sub/b.png") == 1 and labels.class_of("c.png") is None


def test_ambiguous_file_names_match_no_picture(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("x/a.png,cat\ny/a.png,dog\n")
    labels = PictureLabels(str(tmp_path / "l.csv"), LABELS)
    assert [labels.class_of(name) for name in ("x/a.png", "y/a.png", "z/a.png")] == [0, 1, None]


def test_patterns() -> None:
    labels = PictureLabels("{label}-*.png", LABELS)
    assert labels.class_of("some/folder/dog-12.png") == 1 and labels.class_of("7-x.y.png") == 2
    assert labels.class_of("dog.png") is None
    assert PictureLabels("*/{label}/*", LABELS).class_of("a/cat/b.jpg") == 0
    with pytest.raises(InputError, match=r"bird-1.png: 'bird' is neither a label"):
        labels.class_of("bird-1.png")
    with pytest.raises(InputError, match="appears twice"):
        PictureLabels("{label}{label}", LABELS)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("l.csv", "a.png,cat\nb.png,bird\n", "line 2: 'bird' is neither a label of the model"),
        ("l.csv", "a.png\n", "line 1: found 1 columns; expected a name and a label"),
        ("l.csv", "", "contains no labels"),
        ("l.csv", "a.png,cat\na.png,dog\n", "line 2: 'a.png' already has a different label"),
        ("l.json", "[1, 2]", "item 0: expected a name"),
        ("l.json", "{", "not valid JSON"),
        ("l.json", "[" * 100_000, "not valid JSON"),
        ("l.json", "3", "an object that maps names to labels"),
        ("l.xlsx", "a.png,cat", "not .xlsx"),
    ],
)
def test_invalid_table_is_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as error:
        PictureLabels(str(tmp_path / name), LABELS)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        PictureLabels(str(tmp_path / "no.csv"), LABELS)
    (tmp_path / "l.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a table encoded in UTF-8"):
        PictureLabels(str(tmp_path / "l.csv"), LABELS)


def test_labels_of_other_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a.png,cat\n")
    labels = PictureLabels(str(tmp_path / "l.csv"), LABELS)
    labels.check_some(["x/a.png", "b.png"])
    labels.check_some([])
    with pytest.raises(InputError, match=r"no label for any of the pictures, such as 'b.png' \(it has 'a.png'\)"):
        labels.check_some(["b.png"])
