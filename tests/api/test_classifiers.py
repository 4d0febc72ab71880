"""Classifiers that are called with columns, and the example in docs/cluster.md that uses one."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
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


def test_unusable_input_is_reported_in_its_row() -> None:
    answers = trninfer.Classifier(backend="sim")({"path": ["none.png", str(SAMPLES[0])]})
    assert answers["label"][0] == "" and answers["label"][1] and "no such file" in answers["error"][0]
    assert answers["probability"][0] != answers["probability"][0]  # NaN
    assert len(trninfer.Classifier(backend="sim")({"path": []})["label"]) == 0


def test_wrong_columns_and_models_are_refused() -> None:
    with pytest.raises(trninfer.ArgumentError, match="must have a column image, bytes, path; its columns are pictures"):
        trninfer.Classifier(backend="sim")({"pictures": []})
    with pytest.raises(trninfer.ModelError, match="reads pictures, not features"):
        trninfer.Predictor("digits-cnn", backend="sim")
    predictor = trninfer.Predictor(backend="sim")
    with pytest.raises(
        trninfer.ArgumentError,
        match="a column named features or data, or 64 columns of numbers; its columns are 1 columns",
    ):
        predictor({"pixels": [[0.0] * 64]})
    with pytest.raises(trninfer.InputError, match="shape"):
        predictor({"features": [[0.0] * 63]})
    with pytest.raises(trninfer.ModelError, match="reads features, not pictures"):
        trninfer.Classifier("digits-ffnn", backend="sim")


def test_pixels_as_ray_data_reads_them() -> None:
    from PIL import Image

    expected = trninfer.classify(SAMPLES[:3], backend="sim").labels
    pixels = [np.asarray(Image.open(path).convert("RGB")) for path in SAMPLES[:3]]
    classifier = trninfer.Classifier(backend="sim")
    column = np.empty(3, object)
    column[:] = pixels
    for images in (pixels, column):
        assert classifier({"image": images, "path": ["not looked at"] * 3})["label"].tolist() == list(expected)
    wrong = classifier({"image": [pixels[0], np.zeros((3, 3), np.int32)]})
    assert wrong["label"].tolist() == [expected[0], ""] and "pictures must be uint8" in wrong["error"][1]


def test_rows_in_one_column_or_in_many() -> None:
    rows = np.fromfile(ROOT / "samples" / "digits-X.bin", "<f4").reshape(-1, 64)[:4]
    expected = trninfer.predict(rows, backend="sim")
    predictor = trninfer.Predictor(backend="sim")
    columns = {str(number): rows[:, number] for number in range(64)}
    for batch in ({"features": rows}, {"data": list(rows), "other": [1] * 4}, columns):
        answers = predictor(batch)
        assert answers["label"].tolist() == list(expected.labels) and set(batch) < set(answers)
        assert answers["probability"] == pytest.approx(expected.probabilities)
    holed = rows.copy()
    holed[2, 5] = np.nan
    answers = predictor({"features": holed})
    assert answers["error"][2] == "column 5 is nan; all values must be finite in float32" and answers["label"][2] == ""
    assert len(predictor({"features": rows[:0]})["label"]) == 0


@pytest.mark.slow
def test_loaded_model_can_be_called_from_many_threads() -> None:
    classifier = trninfer.Classifier(backend="sim", dtype="bfloat16", top_k=2)
    assert repr(classifier) == "<Classifier: digits-cnn on trn2 in bfloat16 (sim)>"
    expected = classifier.classify(SAMPLES)
    assert len(expected[0].top) == 2 and expected.dtype == "bfloat16"
    with ThreadPoolExecutor(4) as threads:
        for answers in threads.map(classifier.classify, [SAMPLES] * 6):
            assert answers.labels == expected.labels
    collected = classifier.classify(["none.png", SAMPLES[0]], on_error="collect")
    assert [problem.input for problem in collected.errors] == ["none.png"] and len(collected) == 1
    predictor = trninfer.Predictor(backend="sim")
    assert len(predictor.predict(ROOT / "samples" / "digits-X.bin")) == 382
    with pytest.raises(trninfer.ArgumentError, match="header is 'perhaps'"):
        predictor.predict("x.csv", header="perhaps")  # type: ignore[arg-type]


def test_async_methods_can_be_awaited() -> None:
    rows = np.fromfile(ROOT / "samples" / "digits-X.bin", "<f4").reshape(-1, 64)[:4]

    async def both() -> tuple[trninfer.Answers, trninfer.Answers]:
        classifier, predictor = trninfer.Classifier(backend="sim"), trninfer.Predictor(backend="sim")
        return await asyncio.gather(classifier.classify_async(SAMPLES), predictor.predict_async(rows))

    pictures, features = asyncio.run(both())
    assert pictures.labels == trninfer.classify(SAMPLES, backend="sim").labels and len(features) == 4


def example() -> str:
    """Return the example from docs/cluster.md."""
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- example: data -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found.group(1)


@pytest.mark.slow
def test_the_example_of_ray_data() -> None:
    for needed in ("pyarrow", "pandas"):
        pytest.importorskip(needed)
    lines = run_with_ray(f"paths = {[str(path) for path in SAMPLES]!r}\n{example()}").splitlines()
    expected = trninfer.classify(SAMPLES, backend="sim").predictions
    told = dict(line.split()[:2] for line in lines if line.startswith(str(ROOT)))
    assert told == {str(answer.input): answer.label for answer in expected}


FORKING = """
import os, signal, threading, numpy as np, trninfer
predictor, rows = trninfer.Predictor(backend="sim"), np.random.default_rng(0).random((256, 64), np.float32)
expected = predictor.predict(rows[:4]).classes
held, done = threading.Event(), threading.Event()

def answer():
    with predictor._lock:
        held.set()
        done.wait(60)

threading.Thread(target=answer, daemon=True).start()
held.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(predictor.predict(rows[:4]).classes != expected)
status = os.waitpid(child, 0)[1]
done.set()
raise SystemExit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_forked_while_a_thread_predicts_answers() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
