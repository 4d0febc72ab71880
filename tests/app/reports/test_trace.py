"""Timelines of launches in a file for Perfetto."""

import json
from pathlib import Path

import pytest
from trninfer import kernels, simulator
from trninfer.app.errors import UsageError
from trninfer.app.reports.trace import write_trace


@pytest.fixture(scope="module")
def run() -> simulator.Run:
    return simulator.run(kernels.kernel("transpose"), simulator.TensorSpec((3, 5), "float32"), functional=False)


def test_launches_by_the_names_of_their_steps(tmp_path: Path, run) -> None:
    (tmp_path / "t.json").write_text("before")
    (tmp_path / "link").symlink_to("t.json")
    write_trace(tmp_path / "link", [("first", run), ("second", run)], "sim")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    launches = {event["name"]: event["ts"] for event in events if event["name"] in ("first", "second")}
    assert launches["second"] - launches["first"] == pytest.approx(run.latency_us, rel=1e-3)
    assert run.name == "transpose" and (tmp_path / "link").is_symlink()


def test_where_there_is_nothing_to_write_or_no_place(tmp_path: Path, run) -> None:
    write_trace(None, [], "neuron")
    with pytest.raises(
        UsageError, match=r"^--trace .*t\.json: not written, because the neuron backend has no timeline$"
    ):
        write_trace(tmp_path / "t.json", [], "neuron")
    with pytest.raises(UsageError, match=r"^--trace .*t\.json: cannot be written: No such file or directory$"):
        write_trace(tmp_path / "no" / "t.json", [("a", run)], "sim")
    assert list(tmp_path.iterdir()) == []
