"""The accuracy benchmark: every row can be predicted, and the report follows from the predictions."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from trninfer import simulator
from trninfer.benchmarks import latency_accuracy, leave_out, predictions
from trninfer.benchmarks.instruction_rows import ROWS, InstructionPrediction, predict_instructions
from trninfer.benchmarks.measured_rows import MeasuredRow
from trninfer.benchmarks.measurements import DATA, Measurement, load_all_kernel_rows, load_instruction_rows
from trninfer.benchmarks.predictions import Change, PredictedRow
from trninfer.simulator.timing.constants import Constant, fitted, fitted_constants, scaled

KERNELS = {row.id: row for row in load_all_kernel_rows()}


def test_files_are_read_whole() -> None:
    for name, rows in (
        ("latency-kernels.csv", [row for row in KERNELS.values() if row.id.startswith("k")]),
        ("latency-kernels-others.csv", [row for row in KERNELS.values() if row.id.startswith("o")]),
        ("latency-instructions.csv", load_instruction_rows()),
    ):
        with (DATA / name).open(encoding="utf-8") as file:
            assert [row.id for row in rows] == [record["id"] for record in csv.DictReader(file)]
        assert all(row.latency_us > 0 and row.source and row.device in simulator.TARGETS for row in rows)


def test_every_fitted_row_is_a_row_of_the_files() -> None:
    ids = KERNELS.keys() | {row.id for row in load_instruction_rows()}
    assert fitted_constants()
    for _, _, constant in fitted_constants():
        assert constant.rows
        assert set(constant.rows) <= ids


def test_a_row_fits_constants_of_its_own_device_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "trn1": {"narrow_ns": fitted(38, "ns", "", "k12"), "launch_ns": fitted(15_000, "ns", "", "k16")},
        "trn2": {"narrow_ns": scaled(38, "ns", "trn1's"), "launch_ns": fitted(10_000, "ns", "", "k04")},
    }
    monkeypatch.setattr(predictions, "constants", tables.__getitem__)
    assert predictions.fitted_to(KERNELS["k12"]) == ("narrow_ns",)
    assert predictions.fitted_to(KERNELS["k04"]) == ("launch_ns",)
    assert predictions.fitted_to(KERNELS["k02"]) == ()


def test_every_instruction_row_has_a_prediction_or_a_reason() -> None:
    rows = load_instruction_rows()
    assert [row.id for row in rows] == list(ROWS)
    for prediction in predict_instructions(rows):
        assert (prediction.predicted_us is not None and prediction.predicted_us > 0) or prediction.remark


def made_up(row: str, predicted: float, *fitted: str) -> PredictedRow:
    return PredictedRow(KERNELS[row], predicted, fitted)


def test_tables_have_a_line_for_each_row_and_split_them() -> None:
    rows = [made_up("k02", 378 * 1.1), made_up("k12", 109 * 0.8, "launch_ns"), made_up("k30", 51800.0)]
    _, lines = latency_accuracy.kernel_table(rows, [10.0, -30.0, 0.0])
    assert [line[0] for line in lines[:3]] == ["k02", "k12", "k30"]
    assert lines[1][-3:] == ("-30.0", "launch_ns", "")
    reasons = {line[0]: line[-1] for line in lines[3:]}
    assert reasons["k01"].startswith("not counted; not comparable: ")
    assert reasons["k36"].startswith("not counted; not predicted: ")
    _, lines = latency_accuracy.summary_table(rows, [10.0, -30.0, 0.0])
    summary = {line[0]: line[1:] for line in lines}
    assert summary["all"][:3] == ("3", "10.0", "20.0")
    assert summary["trn1"][0] == "2" and summary["trn2"][0] == "1"
    assert summary["vector_add_tiled"][0] == "2" and summary["matmul"][0] == "1"
    assert summary["a constant depends on the row"][-1] == "30.0"


def test_an_instruction_without_a_prediction_shows_why() -> None:
    row = load_instruction_rows()[0]
    _, lines = latency_accuracy.instruction_table(
        [InstructionPrediction(row, None, "not modelled"), InstructionPrediction(row, 2 * row.latency_us)]
    )
    assert lines[0][-3:] == ("", "", "not modelled")
    assert lines[1][-2:] == ("+100.0", "")


def test_the_last_line_is_the_mean_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    predicted = [made_up("k02", 378 * 1.1), made_up("k12", 109 * 0.8), made_up("o02", 1000.0)]
    monkeypatch.setattr(latency_accuracy, "predict_all", lambda rows: predicted)
    monkeypatch.setattr(latency_accuracy, "load", lambda: latency_accuracy.predicted_records("nowhere"))
    monkeypatch.setenv("TRNINFER_SOURCES", "")
    monkeypatch.setattr(latency_accuracy, "compare_measured", lambda: [MeasuredRow("a", "interval", 10.0, 11.0)])
    monkeypatch.setattr(latency_accuracy, "leave_out", lambda p, group: [prediction.error for prediction in p])
    for arguments in ([], ["--markdown"], ["--sources", "nowhere"]):
        monkeypatch.setattr("sys.argv", ["latency_accuracy.py", *arguments])
        latency_accuracy.main()
        assert capsys.readouterr().out.splitlines()[-1] == "mean absolute percentage error: 15.00 %"


def linear_model(
    monkeypatch: pytest.MonkeyPatch, device: str, constant: Constant, slopes: dict[str, float], base: dict[str, float]
) -> Callable[[Measurement], float]:
    """Replace the simulator with a model that has one constant: base + slope * its value relative to the table's.

    Return the latency of a row at the table's value. The constant of the other device is scaled by the same factor.
    """

    def latency(row: Measurement, change: Change | None = None) -> float:
        relative = 1.0 if change is None else change.value / constant.value
        return base[row.id] + slopes[row.id] * relative

    def latencies(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[float]:
        return [latency(row, change) for row, change in tasks]

    other = {"constant": scaled(constant.value, constant.unit, "the other's")}
    monkeypatch.setattr(leave_out, "predict_latencies", latencies)
    monkeypatch.setattr(leave_out, "constants", lambda name: {"constant": constant} if name == device else other)
    return latency


def errors_left_out(
    latency: Callable[[Measurement], float], measured: dict[str, float], fitted_rows: tuple[str, ...]
) -> list[float]:
    rows = [replace(KERNELS[i], latency_us=microseconds) for i, microseconds in measured.items()]
    return leave_out.leave_out(
        [PredictedRow(row, latency(row), ("constant",) if row.id in fitted_rows else ()) for row in rows],
        lambda prediction: prediction.row.id,
    )


def test_left_out_a_row_is_predicted_by_what_the_others_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constant accounts for 10 us of every row. The other rows imply 20 us: when the row is left out, its
    prediction is off by 10 us."""
    slopes = {"k04": 10.0, "k02": 10.0, "k03": 10.0}
    base = {"k04": 20.0, "k02": 100.0, "k03": 20.0}
    latency = linear_model(monkeypatch, "trn2", fitted(10_000, "ns", "", "k04"), slopes, base)
    errors = errors_left_out(latency, {"k04": 30.0, "k02": 120.0, "k03": 40.0}, ("k04",))
    assert errors == [pytest.approx(100 * 10 / 30), pytest.approx(100 * -10 / 120), pytest.approx(100 * -10 / 40)]


def test_a_power_of_two_is_fitted_anew_among_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the constant fits the other rows better, so the row that is left out is predicted with half of it."""
    rows = ("k30", "k31", "k32")
    interleave = fitted(256, "B", "", "k30")
    latency = linear_model(monkeypatch, "trn1", interleave, dict.fromkeys(rows, 40.0), dict.fromkeys(rows, 60.0))
    errors = errors_left_out(latency, {"k30": 100.0, "k31": 80.0, "k32": 80.0}, ("k30",))
    assert errors[0] == pytest.approx(-20)


def test_a_constant_that_no_other_row_determines_is_left_out_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes, base = {"k12": 60.0, "k20": 0.0}, {"k12": 50.0, "k20": 33.0}
    latency = linear_model(monkeypatch, "trn1", fitted(38, "ns", "", "k12"), slopes, base)
    errors = errors_left_out(latency, {"k12": 110.0, "k20": 33.0}, ("k12",))
    assert errors[0] == pytest.approx(100 * (50 - 110) / 110)


def test_a_rate_that_is_left_out_of_the_model_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[float] = []

    def latencies(tasks: Iterable[tuple[Measurement, Change | None]]) -> list[float]:
        given = list(tasks)
        changes.extend(change.value for _, change in given if change)
        return [50.0 + 60.0 * 105 / change.value if change and row.id == "k30" else 33.0 for row, change in given]

    monkeypatch.setattr(leave_out, "predict_latencies", latencies)
    rate = {"trn1": fitted(105, "B/ns", "", "k30"), "trn2": scaled(105, "B/ns", "trn1's")}
    monkeypatch.setattr(leave_out, "constants", lambda name: {"rate": rate[name]})
    rows = [replace(KERNELS["k30"], latency_us=110.0), replace(KERNELS["k20"], latency_us=33.0)]
    predicted = [PredictedRow(rows[0], 110.0, ("rate",)), PredictedRow(rows[1], 33.0, ())]
    errors = leave_out.leave_out(predicted, lambda prediction: prediction.row.id)
    assert max(changes) >= 100 * 105 and errors[0] == pytest.approx(100 * (50 - 110) / 110, abs=0.1)


def test_a_constant_that_documents_give_takes_their_value_where_no_row_determines_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """60 us of the row are due to a constant of 9.4 ns, for which documents state 4.7 ns: when the row is left out,
    half of the time remains."""
    slopes, base = {"k12": 60.0, "k20": 0.0}, {"k12": 50.0, "k20": 33.0}
    latency = linear_model(monkeypatch, "trn1", fitted(9.4, "ns", "", "k12"), slopes, base)
    monkeypatch.setitem(leave_out.PRIORS, "constant", lambda machine: 4.7)
    errors = errors_left_out(latency, {"k12": 110.0, "k20": 33.0}, ("k12",))
    assert errors[0] == pytest.approx(100 * (80 - 110) / 110)
