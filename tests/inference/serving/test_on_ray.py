"""The deployment on Ray Serve, and the examples in docs/serving.md."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
import trninfer
from ray_programs import run_with_ray
from serving import running_server

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def example(name: str) -> str:
    """Return a code block from docs/serving.md."""
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found.group(1)


def test_the_deployment_answers_as_the_server_does() -> None:
    for needed in ("fastapi", "pandas"):
        pytest.importorskip(needed)
    sample = ROOT / "samples" / "7-clean-print.png"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asking = f"""
from urllib.error import HTTPError
from urllib.request import Request, urlopen
address = "http://127.0.0.1:{port}"
print("ready", urlopen(address + "/v2/health/ready", timeout=60).read().decode())
print("right", urlopen(Request(address + "/classify", open({str(sample)!r}, "rb").read()), timeout=60).read().decode())
try:
    urlopen(Request(address + "/classify", b"junk"), timeout=60)
except HTTPError as error:
    print("wrong", error.code, error.read().decode())
serve.shutdown()
"""
    lines = run_with_ray(f"port = {port}\n{example('ray')}\n{asking}").splitlines()
    told = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}
    assert json.loads(told["ready"]) == {"ready": True}
    (answer,) = json.loads(told["right"])["predictions"]
    (expected,) = trninfer.classify(sample, backend="sim").predictions
    assert answer["label"] == expected.label and answer["probability"] == pytest.approx(expected.probability, rel=1e-4)
    assert told["wrong"].startswith("422 ") and "not a picture" in told["wrong"] and "NaN" not in told["wrong"]


def test_the_arguments_of_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    on_ray = pytest.importorskip("trninfer.inference.serving.on_ray", reason="could not import 'fastapi'")
    given = []
    monkeypatch.setattr(on_ray, "deployment", lambda settings, **options: given.append((settings, options)))
    on_ray.application({"model": "digits-ffnn", "workers": "2", "max_delay": "0.5", "replicas": "3"})
    ((settings, options),) = given
    assert (settings.model, settings.workers, settings.max_delay) == ("digits-ffnn", 2, 0.5)
    assert options == {"num_replicas": 3}
    with pytest.raises(ValueError, match="'modle' is not a setting; allowed: replicas, model, name"):
        on_ray.application({"modle": "x"})


def test_the_example_of_tritons_client(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tritonclient.http")
    monkeypatch.chdir(ROOT)
    with running_server("--model", "digits-ffnn", "--max-batch", 1) as server:
        exec(example("triton"), {"address": f"127.0.0.1:{server.port}"})
    rows = trninfer.predict(ROOT / "samples" / "digits-X.bin", backend="sim")
    assert capsys.readouterr().out.startswith(f"[{rows.classes[0]}] 0.9")
