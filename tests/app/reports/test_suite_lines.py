"""The lines below the table of a suite."""

from trninfer.app.reports.suite_lines import suite_lines
from trninfer.runtime.measure.suites import THEIRS, SuiteRow


def row(name="case", ratio=None, **fields):
    return SuiteRow(name, 3.0, 2.0, "student", ratio, "p99", **fields)


def test_the_mean_is_over_published_kernels_that_can_be_compared():
    rows = [
        row(ratio=1.1, kernel=THEIRS),
        row(ratio=0.7, kernel=THEIRS),
        row(ratio=0.2),
        row("b", kernel=THEIRS, note="why"),
    ]
    assert suite_lines(rows) == ["mean absolute error over 2 published kernels: 20.0 %", "b: why"]


def test_sources_that_were_not_given_are_named_once():
    source = "github.com/a/b 12ab kernels.py"
    rows = [row(source=f"{source} with N = 1"), row(source=source), row()]
    assert suite_lines(rows) == [f"--sources DIR predicts the published kernel itself: {source}"]
