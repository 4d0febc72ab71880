"""Every kernel, and every helper that a kernel calls, is NKI that AWS's compiler takes, as far as its source tells."""

from functools import cache
from pathlib import Path

import pytest
from trninfer.simulator.checking.lint import examine_file

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.rglob("kernels/**/*.py"), *ROOT.glob("benchmarks/kernels/*.py")])


EXCEPTIONS = {
    ("psum_sums.py", "interleaved-sums"),  # a check of the self-test does what is reported to go wrong
    ("moe.py", "one-column"),  # as in the kernel that was measured
}


@cache
def examined(path: Path):
    """What the linter says of a file."""
    return examine_file(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_kernels_has_no_findings(path):
    findings = examined(path).findings
    assert [str(finding) for finding in findings if (path.name, finding.rule) not in EXCEPTIONS] == []


def test_exceptions_are_needed():
    files = [path for path in FILES if path.name in dict(EXCEPTIONS)]
    found = {(path.name, finding.rule) for path in files for finding in examined(path).findings}
    assert found >= EXCEPTIONS


def test_kernels_are_there_to_be_checked():
    files = [path for path in FILES if path.parent.name == "kernels"]  # no parts of kernels
    names = {name for path in files for name in examined(path).kernels}
    assert names >= {"vector_add_naive", "transpose", "matmul_tiled", "bias_activation", "argmax", "ffnn_predict"}
    assert {"fused_conv2d_maxpool", "fused_conv2d_maxpool_packed", "run_network"} <= names
