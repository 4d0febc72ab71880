"""The classifier that is called with columns, and the examples of docs/cluster.md that call it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trninfer

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


def example(name: str) -> str:
    """A block of code of docs/cluster.md."""
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found.group(1)


def run(program: str) -> str:
    """What a program prints, on a Ray of its own that listens here alone."""
    start = (
        "import os, ray\n"
        "ray.init(address='local', num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level='ERROR',"
        " object_store_memory=100 << 20)\n"
    )
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "OMP_NUM_THREADS": "1"}
    script = f"import os\nos.environ.update({environment!r})\n{start}{program}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_of_ray_data_and_ray_serve() -> None:
    for needed in ("pyarrow", "pandas", "fastapi"):
        pytest.importorskip(needed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asking = (
        f"from urllib.request import urlopen\n"
        f"content = open({str(SAMPLES[0])!r}, 'rb').read()\n"
        f"print('served', urlopen('http://127.0.0.1:{port}/', data=content, timeout=60).read().decode())\n"
        f"serve.shutdown()\n"
    )
    given = f"paths = {[str(path) for path in SAMPLES]!r}\nport = {port}\n"
    lines = run(f"{given}{example('data')}\n{example('serve')}\n{asking}").splitlines()
    expected = trninfer.classify(SAMPLES, backend="sim").predictions
    told = dict(line.split()[:2] for line in lines if line.startswith(str(ROOT)))
    assert told == {str(answer.input): answer.label for answer in expected}
    served = json.loads(next(line for line in lines if line.startswith("served")).partition(" ")[2])
    assert (served["label"], served["error"]) == (expected[0].label, "")
