"""Benchmarks of one kernel at a given shape."""

import pytest
from trninfer.app.bench.kernel import bench_kernel
from trninfer.app.reports.report import Report
from trninfer.runtime.measure.kernel_cases import ShapeError
from trninfer.runtime.simulated import SimulatedBackend


def test_a_kernel_at_a_shape(cli) -> None:
    shape = "batch=1,cin=4,cout=8,h=12,w=12,k=3,pool=2"
    report = cli("bench", "--kernel", "conv2d", "--shape", shape, "--format", "json", "--verify").json()
    (layer,) = report["layers"]
    assert (layer["kernel"], layer["input_shape"], layer["output_shape"], layer["share"]) == (
        "fused_conv2d_maxpool", [1, 4, 12, 12], [1, 8, 5, 5], 1,
    )  # fmt: skip
    assert report["model"] is None and report["verify"]["passed"]


@pytest.mark.parametrize("verify", [False, True])
def test_a_row_of_the_kernel_under_its_shape(verify) -> None:
    backend = SimulatedBackend("trn2", keep_timelines=True)
    report = Report.on("bench", None, backend.info, "float32")
    sizes = {"m": "3", "n": "129"}
    ((name, timeline),) = bench_kernel(report, "transpose", sizes, backend, verify)
    (table,) = report.tables
    (row,) = table.layers
    assert (name, table.title, table.prefix, table.floor) == ("transpose", "transpose m=3 n=129", "", None)
    assert (row.name, row.kernel) == ("transpose", "transpose")
    assert (row.input_shape, row.output_shape) == ((3, 129), (129, 3))
    assert row.hbm_bytes == 2 * 3 * 129 * 4  # each is read or written once
    assert timeline.latency_us == row.latency_us == report.total_us > 0
    assert (report.verify is not None) == verify
    assert report.verify is None or (report.verify.passed and report.verify.max_abs_error == 0)


def test_no_timeline_if_the_backend_keeps_none() -> None:
    backend = SimulatedBackend("trn2")
    report = Report.on("bench", None, backend.info, "float32")
    assert bench_kernel(report, "transpose", {"m": "1", "n": "1"}, backend, False) == [] and len(report.tables) == 1
    with pytest.raises(ShapeError, match="m is missing"):
        bench_kernel(report, "transpose", {"n": "1"}, backend, False)
