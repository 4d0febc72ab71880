"""An archive of the self-test, compared with current predictions."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.selftest.archive import ArchiveError, ComparedKernel, compare_archive
from trninfer.runtime.selftest.checks import checks


def write_archive(path: Path, document: Any) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("selftest.json", json.dumps(document))
    return path


def run_of(*rows: dict[str, Any], target: str = "trn2") -> dict[str, Any]:
    found = {(check.kernel, check.size): check for check in checks(DTYPES["bfloat16"]) if not check.variant}
    kernels = [{"variant": "", "shapes": found[row["kernel"], row["size"]].shapes, **row} for row in rows]
    return {"target": target, "dtype": "bfloat16", "kernels": kernels}


ESTIMATED = {
    "kernel": "transpose", "size": "odd",
    "aws_estimate": {"total_us": 30.0, "utilization": {"PE": 50.0, "Pool": 1.5, "SP": 3.0}},
}  # fmt: skip
MEASURED = {"kernel": "argmax", "size": "small", "measured_device_us": 12.0, "aws_estimate": None}


@pytest.mark.slow
def test_kernels_are_predicted_again_beside_what_the_archive_has(tmp_path: Path) -> None:
    without = {"kernel": "bias_activation", "size": "odd", "aws_estimate": {"total_us": None}}
    document = {"runs": [run_of(ESTIMATED, without), run_of(MEASURED, target="trn3")]}
    estimated, measured = compare_archive(write_archive(tmp_path / "a.zip", document))
    assert (estimated.kernel, estimated.target, estimated.aws_estimate_us) == ("transpose", "trn2", 30.0)
    assert estimated.measured_device_us is None and measured.aws_estimate_us is None
    assert (measured.kernel, measured.target, measured.measured_device_us) == ("argmax", "trn3", 12.0)
    assert estimated.aws_engines == {"tensor": 0.5, "gpsimd": 0.015, "SP": 0.03}  # percent there
    assert sum(estimated.critical.values()) == pytest.approx(estimated.predicted_us)
    assert f"AWS's estimate is {30 / estimated.predicted_us:.2f} times the prediction" in estimated.explanation
    assert "tensor is busy for" in estimated.explanation and "but 50% of AWS's" in estimated.explanation
    assert measured.explanation.startswith(f"measured is {12 / measured.predicted_us:.2f} times the prediction; ours: ")


def test_one_run_is_a_document_of_its_own_and_other_shapes_are_left_out(tmp_path: Path) -> None:
    run = run_of(ESTIMATED, MEASURED)
    run["kernels"][0]["shapes"] = [[1, 2]]  # from an earlier version
    (found,) = compare_archive(write_archive(tmp_path / "a.zip", run))
    assert isinstance(found, ComparedKernel) and found.kernel == "argmax"


@pytest.mark.parametrize(
    "document", [[], {}, {"runs": [{"target": "trn2", "dtype": "int3", "kernels": []}]}, {"runs": 3}]
)
def test_invalid_archive_is_refused_in_one_line(tmp_path: Path, document: Any) -> None:
    with pytest.raises(ArchiveError, match=r"a\.zip: not an archive of trninfer doctor --selftest"):
        compare_archive(write_archive(tmp_path / "a.zip", document))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be read: No such file"):
        compare_archive(tmp_path / "none.zip")
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(ArchiveError, match="not an archive of trninfer"):
        compare_archive(tmp_path / "text.zip")
    with pytest.raises(ArchiveError, match="it contains neither AWS's estimate nor a measured time for any kernel"):
        compare_archive(write_archive(tmp_path / "a.zip", run_of()))
