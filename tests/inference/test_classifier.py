"""The classifier that is called with columns, and the example of docs/cluster.md that calls it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trninfer
from ray_programs import run_with_ray

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "samples").glob("*.png"))[:5]


def test_paths_and_bytes_are_answered_as_classify_does() -> None:
    expected = trninfer.classify(SAMPLES, backend="sim").predictions
    classifier = trninfer.Classifier("digits-cnn", backend="sim", batch_size=2)
    by_path = classifier({"path": [str(path) for path in SAMPLES], "other": list(range(5))})
    by_bytes = classifier({"bytes": [path.read_bytes() for path in SAMPLES]})
    for answers in (by_path, by_bytes):
        assert answers["label"].tolist() == [answer.label for answer in expected]
        assert answers["probability"] == pytest.approx([answer.probability for answer in expected], rel=1e-5)
        assert answers["error"].tolist() == [""] * 5
    assert by_path["other"] == list(range(5))


def test_what_cannot_be_used_is_told_in_its_row() -> None:
    answers = trninfer.Classifier(backend="sim")({"path": ["none.png", str(SAMPLES[0])]})
    assert answers["label"][0] == "" and answers["label"][1] and "no such file" in answers["error"][0]
    assert answers["probability"][0] != answers["probability"][0]  # NaN
    assert len(trninfer.Classifier(backend="sim")({"path": []})["label"]) == 0


def test_wrong_columns_and_models_are_refused() -> None:
    with pytest.raises(KeyError, match="needs a column path or bytes; it has image"):
        trninfer.Classifier(backend="sim")({"image": []})
    with pytest.raises(trninfer.ModelError, match="reads features, not pictures"):
        trninfer.Classifier("digits-ffnn", backend="sim")


def example() -> str:
    """The example of docs/cluster.md."""
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- example: data -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found.group(1)


def test_the_example_of_ray_data() -> None:
    for needed in ("pyarrow", "pandas"):
        pytest.importorskip(needed)
    lines = run_with_ray(f"paths = {[str(path) for path in SAMPLES]!r}\n{example()}").splitlines()
    expected = trninfer.classify(SAMPLES, backend="sim").predictions
    told = dict(line.split()[:2] for line in lines if line.startswith(str(ROOT)))
    assert told == {str(answer.input): answer.label for answer in expected}
