"""The shared part of `classify` and `ffnn`: inputs that match no class are reported and counted separately."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from trninfer.app.main import run
from trninfer.lowering.launch_plan import LaunchPlanner
from trninfer.lowering.pipeline import LaunchPlan
from trninfer.models.bundled import SAMPLES
from trninfer.models.files import save_model
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import Dense
from trninfer.models.network import Network
from trninfer.models.outputs import Output

ROWS = np.array([[9, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 1], [0, 0, 9]], np.float32)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Run `ffnn` on five rows with a network that returns its input as scores: a, b, neither, a, neither."""
    network = Network(
        "letters",
        FeatureInput(3),
        (Dense("same", 3, 3),),
        ("a", "b", "neither"),
        Output("classes", "raw", none="neither"),
    )
    tensors = {"same.weight": np.eye(3, dtype=np.float32), "same.bias": np.zeros(3, np.float32)}
    save_model(tmp_path / "letters.safetensors", network, tensors)
    np.save(tmp_path / "rows.npy", ROWS)
    files = ["--model", str(tmp_path / "letters.safetensors"), "--data", str(tmp_path / "rows.npy")]
    return ["ffnn", *files, "--backend", "sim", "--target", "trn2"]


def test_inputs_without_a_class_are_counted_separately_in_json(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["none"] == {"label": "neither", "count": 2, "total": 5}
    assert [each["label"] for each in document["predictions"]] == ["a", "b", "neither", "a", "neither"]
    best = document["predictions"][2]["top"]
    assert best[0]["label"] == "neither" and len(best) == 3  # --top-k includes all classes
    assert sum(each["probability"] for each in best) == pytest.approx(1, abs=1e-5)


def test_inputs_without_a_class_are_none_in_the_table(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[1] for line in shown.splitlines()[2:7]] == ["a", "b", "neither", "a", "neither"]
    assert "2 of 5 are not a class of the network (label neither)" in shown


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_streams_have_the_label_and_the_count(
    command: list[str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--format", form]) == 0
    streams = capsys.readouterr()
    assert "2 of 5 are not a class" in streams.err
    if form == "csv":
        assert [line.split(",")[1] for line in streams.out.splitlines()[1:]] == ["a", "b", "neither", "a", "neither"]
    else:
        assert json.loads(streams.out.splitlines()[-1])["none"]["count"] == 2


def test_answers_of_an_earlier_run_are_counted(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "answers.ndjson"
    command += ["--format", "ndjson", "--output", str(output)]
    assert run(command) == 0
    lines = output.read_text().splitlines()
    output.write_text("\n".join(lines[:3]) + "\n")  # as if the last two rows had not been processed
    assert run([*command, "--resume"]) == 0
    assert json.loads(output.read_text().splitlines()[-1])["none"] == {"label": "neither", "count": 2, "total": 5}
    capsys.readouterr()


def test_a_network_without_the_label_none_does_not_report_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((1, 64), np.float32))
    assert run(["ffnn", "--data", str(tmp_path / "rows.npy"), "--backend", "sim", "--format", "json"]) == 0
    assert "none" not in json.loads(capsys.readouterr().out)


def test_no_larger_batch_than_there_are_pictures_is_planned(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    planned: list[int] = []
    real = LaunchPlanner._plan

    def noted(self: LaunchPlanner, pictures: int) -> LaunchPlan:
        planned.append(pictures)
        return real(self, pictures)

    monkeypatch.setattr(LaunchPlanner, "_plan", noted)
    assert run(["classify", str(SAMPLES / "7-clean-print.png"), "--backend", "sim"]) == 0
    assert set(planned) == {1}
