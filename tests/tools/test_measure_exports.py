"""The table of real exports: its counts, its rows, and reasons of any length."""

import json
from pathlib import Path

import pytest
from trninfer.tools import measure_exports
from trninfer.tools.measure_exports import main, rows_of, table_of
from trninfer.tools.real_exports import Export

RAN = {"layers": 3, "differs_by": 1.2e-7, "planned_s": 1.25, "predicted_us": 1234.5, "times_floor": 2.06}


def test_a_table_has_counts_by_family_and_a_row_a_network() -> None:
    table = table_of(
        {
            "timm: mobile/a/96/script": {**RAN, "date": "2026-11-29"},
            "timm: mobile/b/96/script": {**RAN, "times_floor": 4.0, "note": "layer by layer, not in one launch: x"},
            "timm: mobile/c/96/dynamo": {"layers": 1, "refused": "x | y " * 40},
            "scikit-learn/d/0/own": {"not_exported": "broken"},
        }
    )
    lines = table.splitlines()
    assert "rows of 2026-11-29" in lines[0]
    assert lines[2:4] == ["| timm: mobile | 3 | 2 | 1 | 4.0 | 1 | 2.1 |", "| timm, all | 3 | 2 | 1 | 4.0 | 1 | 2.1 |"]
    assert "| a | 96 | script | 1e-07 | 1.2 s | 1,234 us | 2.1 |  | 2026-11-29 |" in lines
    assert lines[-1] == "| d |  | own |  |  |  |  | not exported: broken |  |"
    assert all(line.count("|") == lines[5].count("|") for line in lines[5:]) and len(lines[-2]) < 250


def test_measured_exports_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exports = [Export("scikit-learn", name, 0, "own") for name in ("PCA", "SVC")]
    tried: list[str] = []
    monkeypatch.setattr(measure_exports, "all_exports", lambda sizes: exports)
    monkeypatch.setattr(measure_exports, "_in_a_process", lambda export, _: tried.append(export.name) or dict(RAN))
    results = tmp_path / "results"
    results.write_text(json.dumps({"key": exports[0].key, "refused": "no"}) + "\n")
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["measure_exports", str(results)])
        main()
    assert tried == ["SVC"] and len(results.read_text().splitlines()) == 2
    assert "date" in json.loads(results.read_text().splitlines()[-1])


def test_rows_of_a_page_are_read_again() -> None:
    """Two packages have a network with this name; the first row belongs to the first package."""
    results = {
        "torchvision/resnet18/96/script": {
            "differs_by": 3e-7, "planned_s": 2.5, "predicted_us": 1083.0, "times_floor": 1.1, "date": "2026-11-29",
        },
        "timm: residual/resnet18/96/script": {"refused": "takes more than 120 s"},
        "timm: mobile/starnet_s1/96/dynamo": {"not_exported": "an error"},
        "scikit-learn/PCA/0/own": {
            "differs_by": 1e-6, "planned_s": 0.1, "predicted_us": 12.0, "times_floor": 1.2, "note": "layer by layer",
        },
    }  # fmt: skip
    page = f"text\n<!-- measured: exports -->\n{table_of(results)}<!-- end of exports -->\n"
    assert rows_of(page) == results
    assert rows_of("no table") == {}
