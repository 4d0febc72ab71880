"""The subject of a benchmark determines what is timed, and on which backend."""

import pytest
from trninfer.app.bench.measure import measure
from trninfer.app.bench.subject import BenchSubject
from trninfer.app.errors import UsageError
from trninfer.app.options import RunOptions
from trninfer.runtime.measure import suites
from trninfer.runtime.neuron import environment
from trninfer.simulator.timing.constants import machine

TRANSPOSE = BenchSubject(kernel="transpose", shape="m=3,n=5")
SIMULATED = RunOptions(backend="sim", target="trn1", dtype="float16")


def test_a_kernel_on_the_target_and_in_the_dtype_asked_for() -> None:
    report, timelines = measure(TRANSPOSE, SIMULATED, 0.0, {})
    assert (report.command, report.model, report.backend) == ("bench", None, "sim")
    assert (report.target, report.dtype, report.latency_kind) == ("trn1", "float16", "predicted")
    assert [table.title for table in report.tables] == ["transpose m=3 n=5"] and timelines == []
    assert report.host_seconds > 0 and report.advice is None and report.suite is None


def test_timelines_are_kept_if_a_file_needs_them(tmp_path) -> None:
    for field in ("trace", "report_file"):
        _, timelines = measure(TRANSPOSE, RunOptions(backend="sim", target="trn2", **{field: tmp_path / "f"}), 0.0, {})
        assert [name for name, _ in timelines] == ["transpose"]


def test_constants_of_the_target_alone_and_only_meanwhile() -> None:
    before = machine("trn2").launch_ns
    values = {"trn1": {}, "trn2": {"launch_ns": before + 5000.0}, "trn3": {}}
    options = RunOptions(backend="sim", target="trn2")
    (plain, _), (slower, _) = (measure(TRANSPOSE, options, 0.0, constants) for constants in ({}, values))
    assert slower.total_us == pytest.approx(plain.total_us + 5) and machine("trn2").launch_ns == before
    assert "a machine that differs from trn2" in (slower.latency_note or "") and plain.latency_note is None
    other, _ = measure(TRANSPOSE, SIMULATED, 0.0, values)
    assert other.total_us == measure(TRANSPOSE, SIMULATED, 0.0, {})[0].total_us


def test_why_auto_took_the_simulator(monkeypatch) -> None:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ())
    monkeypatch.delenv("TRNINFER_BACKEND", raising=False)
    note = measure(TRANSPOSE, RunOptions(target="trn2"), 0.0, {})[0].choice_note
    assert note is not None and note.startswith("auto chose the simulator: no Neuron device")
    assert measure(TRANSPOSE, RunOptions(backend="sim", target="trn2"), 0.0, {})[0].choice_note is None


@pytest.mark.parametrize("quiet", [False, True])
def test_a_suite_is_simulated_on_its_own_targets(monkeypatch, capsys, quiet) -> None:
    sides: dict[str, int | str] = {"m": 3, "n": 5}
    case = suites.SuiteCase("s", "c", "transpose", sides, "float32", "trn1", "benchmark", 10.0, "student", "")
    monkeypatch.setattr(suites, "_cases", lambda: (case,))
    options = RunOptions(target="trn3", dtype="float16", quiet=quiet)
    values = {"trn1": {"launch_ns": machine("trn1").launch_ns + 5000.0}, "trn2": {}, "trn3": {}}
    (plain, _), (slower, _) = (measure(BenchSubject(suite="s"), options, 0.0, constants) for constants in ({}, values))
    assert (plain.target, plain.dtype, plain.backend, plain.tables) == ("trn1", "float32", "sim", [])
    assert plain.suite is not None and slower.suite is not None
    assert slower.suite[0].predicted_us == pytest.approx(plain.suite[0].predicted_us + 5)
    ignored = "--dtype, --target: ignored, because the cases of a suite define these settings"
    assert (ignored in capsys.readouterr().err) != quiet


def test_constants_that_cannot_be_end_it_before_anything_is_timed() -> None:
    with pytest.raises(UsageError, match="--set: 'x' is not a constant"):
        measure(TRANSPOSE, SIMULATED, 0.0, {"trn1": {"x": 1.0}, "trn2": {}, "trn3": {}})
