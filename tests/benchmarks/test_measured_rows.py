"""Measured rows of single instructions, compared with the model's costs."""

from statistics import median

import pytest
from trninfer.benchmarks import latency_accuracy
from trninfer.benchmarks.measured_rows import MeasuredRow, compare_measured

ROWS = compare_measured()
COMPARED = [row for row in ROWS if row.predicted_ns is not None]


def test_most_rows_have_a_cost_and_the_others_a_reason() -> None:
    assert len(COMPARED) > 200
    assert all(row.remark for row in ROWS if row.predicted_ns is None)
    assert all(row.measured_ns > 0 and row.predicted_ns > 0 for row in COMPARED)


def test_the_model_stands_on_the_rows() -> None:
    """The accuracy that the documentation of the model states."""
    assert median(abs(row.error) for row in COMPARED) <= 5
    assert all(row.remark for row in COMPARED if abs(row.error) > 25)


@pytest.mark.parametrize(
    ("engine", "what", "percent"),
    [
        ("PE", "interval", 1),
        ("DVE", "interval", 1.5),
        ("DVE", "duration", 3),
        ("ACT", "interval", 0.5),
        ("ACT", "duration", 1),
        ("DMA", "interval", 0.2),
    ],
)
def test_half_of_the_rows_of_an_engine_are_met_closely(engine: str, what: str, percent: float) -> None:
    """Only rows without a remark on a known deviation."""
    own = [row for row in COMPARED if row.name.startswith(engine) and row.what == what and not row.remark]
    assert len(own) > 10 and median(abs(row.error) for row in own) <= percent


def test_engines_and_sources_are_distinguished() -> None:
    """A copy on the Scalar Engine takes longer from SBUF than from PSUM, and reading a bias takes time."""
    intervals = {row.name: row.predicted_ns for row in COMPARED if row.what == "interval"}
    assert intervals["ACT copy fp32 fp32 SBUF PSUM 128 1>1"] > intervals["ACT copy fp32 fp32 PSUM SBUF 128 1>1"] + 30
    exp = "ACT activation exp flags00000000 fp32 fp32 {} SBUF 128 512>512"
    assert intervals[exp.format("SBUF")] > intervals[exp.format("PSUM")] > 512 / 1.2 + 100


def test_the_table_shows_what_is_not_compared_too() -> None:
    rows = [MeasuredRow("a", "interval", 10.0, 11.0), MeasuredRow("b", "", 0.0, None, "no cost")]
    _, lines = latency_accuracy.measured_table(rows)
    assert lines[0][2:] == ("10.0", "11.0", "+10.0", "") and lines[1][2:] == ("", "", "", "no cost")
