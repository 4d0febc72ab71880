"""Every kernel, and every helper that a kernel calls, is NKI that AWS's compiler takes, as far as its source tells."""

from pathlib import Path

import pytest
from trninfer.simulator.lint import examine_file

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.rglob("kernels/**/*.py"), *ROOT.glob("benchmarks/kernels/*.py")])


EXCEPTIONS = {
    ("psum_sums.py", "interleaved-sums"),  # a check of the self-test does what is reported to go wrong
    ("moe.py", "one-column"),  # as in the kernel that was measured
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_kernels_has_no_findings(path):
    findings = examine_file(path).findings
    assert [str(finding) for finding in findings if (path.name, finding.rule) not in EXCEPTIONS] == []


def test_exceptions_are_needed():
    found = {(path.name, finding.rule) for path in FILES for finding in examine_file(path).findings}
    assert found >= EXCEPTIONS


def test_kernels_are_there_to_be_checked():
    names = {name for path in FILES for name in examine_file(path).kernels}
    assert names >= {"vector_add_naive", "transpose", "matmul_tiled", "bias_activation", "argmax", "ffnn_predict"}
    assert {"fused_conv2d_maxpool", "fused_conv2d_maxpool_packed", "run_network"} <= names
