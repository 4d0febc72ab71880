"""`trninfer load`: its table, its JSON, and invalid arguments."""

from __future__ import annotations

import json

import pytest
from trninfer.app.load import print_load
from trninfer.app.reports.console import to_text
from trninfer.inference.load_client import LoadResult

RESULT = LoadResult(
    4, None, 2.0, 100, 97, 97.0, 48.5, 20.5, 20.0, 25.0, 30.0, 40.0, 55.5, {"status 429": 2, "timeout": 1}, 0.95
)


def test_a_row_a_load_with_failures_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = to_text(lambda console: print_load(console, "load on x", [RESULT]), None).splitlines()
    assert lines[1].split()[:3] == ["concurrency", "requests/s", "inputs/s"]
    assert lines[3].split() == ["4", "48.5", "97.0", "20.00", "25.00", "30.00", "40.00", "20.50", "55.50", "3"]
    assert lines[4] == "errors: status 429: 2, timeout: 1"
    assert lines[5].startswith("this client was busy for 95 % of the time")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ftp://x"], "not an address"),
        (["127.0.0.1:1"], "connection refused"),
        (["127.0.0.1:1", "--concurrency", "0"], "not an integer"),
        (["127.0.0.1:1", "--rate", "5", "--concurrency", "1,2"], "a single --concurrency value"),
        (["127.0.0.1:1", "nowhere.png"], "nowhere.png"),
        (["127.0.0.1:1", "x.png", "--batch-size", "2"], "omit --batch-size"),
        (["127.0.0.1:1", "--duration", "9999999"], "seconds"),
    ],
)
def test_refusals(cli, words: list[str], told: str) -> None:
    outcome = cli("load", *words)
    assert outcome.status == 2 and told in outcome.err and "Traceback" not in outcome.err


def test_pictures_without_a_response(cli, pictures) -> None:
    outcome = cli("load", "127.0.0.1:1", pictures, "--requests", "3", "--concurrency", "1,2", "--format", "json")
    rows = json.loads(outcome.out)["load"]
    assert outcome.status == 2 and [row["concurrency"] for row in rows] == [1, 2]
    assert all(row["errors"] == {"connection refused": 3} and row["p99_ms"] is None for row in rows)
