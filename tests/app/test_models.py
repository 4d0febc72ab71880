"""`trninfer models`."""

import csv
import io
import json

from trninfer.models import load_model
from trninfer.models.files import WEIGHTS_DIRECTORY


def test_models(cli) -> None:
    rows = json.loads(cli("models", "--format", "json").out)["models"]
    assert {"digits-ffnn", "digits-cnn"} <= {row["name"] for row in rows}
    assert all(row["accuracy"] and row["parameters"] > 0 for row in rows)
    assert max(map(len, cli("models").out.splitlines())) <= 80


def test_models_as_csv_hold_json_not_python(cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("models", "--format", "csv").out)))
    assert all(json.loads(row["accuracy"])[0]["total"] > 0 for row in rows)


def test_listed_facts_match_the_models(cli, monkeypatch) -> None:
    rows = {row["name"]: row for row in json.loads(cli("models", "--format", "json").out)["models"]}
    monkeypatch.setenv("COLUMNS", "300")  # numbers are not separated from their units
    table = cli("models").out
    for name in ("digits-cnn", "digits-ffnn"):
        row, model = rows[name], load_model(name)
        assert (row["layers"], row["classes"]) == (len(model.network.layers), len(model.network.labels))
        assert row["parameters"] == sum(tensor.size for tensor in model.tensors.values())
        assert row["file_bytes"] == (WEIGHTS_DIRECTORY / f"{name}.safetensors").stat().st_size
        for score in row["accuracy"]:
            assert score["accuracy"] == score["correct"] / score["total"]
            assert f"{100 * score['accuracy']:.2f} %" in table
    assert (rows["digits-cnn"]["input"], rows["digits-ffnn"]["input"]) == ("an image of 1x32x32", "64 features")


def test_a_file_that_cannot_be_written_is_refused_first(cli) -> None:
    outcome = cli("models", "--output", "/")
    assert (outcome.status, outcome.err) == (2, "trninfer: --output /: this is a folder; pass the name of a file\n")
