"""Classification results: values, tables, pages and files."""

from __future__ import annotations

import builtins
import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trninfer
from report_schema import SCHEMA, check_schema
from small_inputs import draw_picture, write_model
from trninfer.models import Dense, FeatureInput, Network, Output


@pytest.fixture(scope="module")
def answers(picture_model: Path, tmp_path_factory: pytest.TempPathFactory) -> trninfer.Answers:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        draw_picture(folder / f"{number}.png", number)
    (folder / "<b>bad.png").write_bytes(b"junk")
    return trninfer.classify(folder, picture_model, backend="sim", on_error="collect", batch_size=2)


def test_a_sequence_of_predictions(answers: trninfer.Answers) -> None:
    assert len(answers) == 3 and list(answers) == list(answers.predictions) and answers[-1] == answers.predictions[-1]
    assert answers.probabilities.tolist() == pytest.approx([answer.probability for answer in answers])
    assert [Path(str(problem.input)).name for problem in answers.errors] == ["<b>bad.png"]
    with pytest.raises(trninfer.ArgumentError, match="tiny-cnn outputs classes, not values"):
        _ = answers.values


def test_repr_is_short(answers: trninfer.Answers) -> None:
    text = repr(answers)
    assert text.startswith("<Answers: 3 of tiny-cnn, 1 errors, predicted ") and text.endswith("trn2 in float32 (sim)>")
    assert len(text) < 100 and len(repr(answers[0])) < 200 and "\n" not in repr(answers[0])


def test_as_plain_values_and_json(answers: trninfer.Answers) -> None:
    document = answers.to_dict()
    check_schema(document, SCHEMA)
    assert json.loads(answers.to_json()) == json.loads(json.dumps(document))
    assert document["command"] == "classify" and len(document["predictions"]) == 3 and len(document["errors"]) == 1
    assert document["total_us"] == answers.total_us > 0


def test_as_a_table_of_pandas(answers: trninfer.Answers) -> None:
    pytest.importorskip("pandas")
    table = answers.to_pandas()
    assert list(table.columns) == ["input", "label", "class_index", "probability", "error"] and len(table) == 4
    assert table["label"].tolist()[:3] == list(answers.labels)
    assert table["error"].notna().tolist() == [False] * 3 + [True]
    assert table["class_index"].tolist()[:3] == answers.classes.tolist()


def test_missing_pandas_is_reported(answers: trninfer.Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("pandas", "pyarrow"):
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(trninfer.ArgumentError, match="pip install pandas"):
        answers.to_pandas()
    with pytest.raises(trninfer.ArgumentError, match="pip install pyarrow"):
        answers.save("never-written.parquet")


def test_saved(answers: trninfer.Answers, tmp_path: Path) -> None:
    answers.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(answers.to_json())
    answers.save(str(tmp_path / "a.csv"))
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [*answers.labels, ""] and "not a picture" in rows[-1]["error"]
    answers.save(tmp_path / "a.ndjson")
    kinds = [json.loads(line)["type"] for line in (tmp_path / "a.ndjson").read_text().splitlines()]
    assert kinds[:3] == ["prediction"] * 3 and kinds[-1] == "summary" and "error" in kinds
    answers.save(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "tiny-cnn" in page and "&lt;b&gt;bad.png" in page and 'id="timeline"' in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.html", "a.json", "a.ndjson"]


def test_saved_as_parquet(answers: trninfer.Answers, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    answers.save(tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["label"] for row in rows] == [*answers.labels, None] and rows[0]["error"] is None
    assert [row["class_index"] for row in rows[:3]] == answers.classes.tolist()


def test_files_that_cannot_be_written(answers: trninfer.Answers, tmp_path: Path) -> None:
    with pytest.raises(
        trninfer.ArgumentError, match=r"saved as \.json, \.csv, \.ndjson, \.parquet, \.html, not as \.txt"
    ):
        answers.save(tmp_path / "a.txt")
    for name in ("a.csv", "a.html"):
        with pytest.raises(trninfer.ArgumentError, match="nowhere"):
            answers.save(tmp_path / "nowhere" / name)
    bare = dataclasses.replace(answers, run=None)
    with pytest.raises(trninfer.ArgumentError, match="no report to save"):
        bare.to_dict()


def test_in_a_notebook_nothing_passes_for_markup(answers: trninfer.Answers) -> None:
    page = answers._repr_html_()
    assert "&lt;b&gt;bad.png" in page and "<b>" not in page and answers[0].label in page and "predicted" in page


def test_answers_of_values_and_of_rows(tmp_path: Path) -> None:
    network = Network("values", FeatureInput(2), (Dense("d", 2, 3),), (), Output("values"))
    path = write_model(tmp_path / "values.safetensors", network)
    answers = trninfer.predict(np.ones((2, 2)), path, backend="sim")
    assert answers.values.shape == (2, 3) and answers.labels == (None, None)
    assert np.isnan(answers.probabilities).all() and answers.classes.tolist() == [-1, -1]
    assert answers.to_dict()["command"] == "ffnn" and "Prediction(input=0, values=" in repr(answers[0])
    if pytest.importorskip("pandas"):
        assert list(answers.to_pandas().columns) == ["input", "value_0", "value_1", "value_2", "error"]
    parquet = pytest.importorskip("pyarrow.parquet")
    answers.save(tmp_path / "a.parquet")
    assert np.allclose(parquet.read_table(tmp_path / "a.parquet").to_pylist()[1]["values"], answers.values[1])


def test_no_answers_at_all(tmp_path: Path) -> None:
    answers = trninfer.classify([], backend="sim")
    assert len(answers) == 0 and answers.to_dict()["predictions"] == [] and answers._repr_html_()
    answers.report(tmp_path / "a.html")
    answers.save(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "input,label,class_index,probability,error\n"
