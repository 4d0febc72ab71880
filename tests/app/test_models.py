"""`trninfer models`."""

import csv
import io
import json


def test_models(cli) -> None:
    rows = json.loads(cli("models", "--format", "json").out)["models"]
    assert {"digits-ffnn", "digits-cnn"} <= {row["name"] for row in rows}
    assert all(row["accuracy"] and row["parameters"] > 0 for row in rows)
    assert max(map(len, cli("models").out.splitlines())) <= 80


def test_models_as_csv_hold_json_not_python(cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("models", "--format", "csv").out)))
    assert all(json.loads(row["accuracy"])[0]["total"] > 0 for row in rows)
