"""Running a migrated file: comparisons are counted, and failures and errors are reported with their lines. A run takes
0.7 s."""

from pathlib import Path

import pytest

pytest.importorskip("libcst")
from trninfer.simulator.migrate.check import Check, check, compare

pytestmark = pytest.mark.slow

KERNEL = """\
import numpy as np
import nki
import nki.language as nl


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out


x = np.ones((4, 8), np.float32)
assert np.allclose(x, x)  # before anything is launched
"""


def run(tail, tmp_path):
    return check(KERNEL + tail, tmp_path / "kernel.py")


def test_comparisons_after_a_launch_are_counted(tmp_path):
    found = run(
        "y = nki.simulate(doubled)(x)\nnp.testing.assert_allclose(y, 2 * x)\nprint(np.allclose(y, x * 2))", tmp_path
    )
    assert found == Check(launches=1, comparisons=2)
    assert found.well
    assert found.shown == "1 launch, 2 of 2 comparisons hold"


def test_comparisons_that_fail_are_reported_with_their_line(tmp_path):
    found = run("y = nki.simulate(doubled)(x)\nnp.allclose(y, x)\nnp.testing.assert_array_equal(y, x)\n", tmp_path)
    assert (found.launches, found.comparisons, found.error, found.well) == (1, 2, "", False)
    first = KERNEL.count("\n") + 2
    apart = "does not hold, the values differ by up to 100 %"
    assert found.failures == [
        f"line {first} of the migrated file: numpy.allclose {apart}",
        f"line {first + 1} of the migrated file: numpy.testing.assert_array_equal {apart}",
    ]
    assert found.shown == f"1 launch, 0 of 2 comparisons hold; {found.failures[0]}"


def test_an_error_is_reported(tmp_path):
    found = run("nki.simulate(doubled)(x)\nraise ValueError('why')\n", tmp_path)
    assert found.error == f"line {KERNEL.count(chr(10)) + 2} of the migrated file: ValueError: why"
    assert not found.well and found.shown == f"1 launch, nothing was compared; {found.error}"


def test_a_run_that_compares_nothing_is_not_well():
    assert not Check(launches=2).well and Check(launches=2).shown == "2 launches, nothing was compared"
    assert not Check(launches=1, comparisons=1, error="why").well and Check(launches=1, comparisons=1).well


def test_tests_are_run_if_the_script_compares_nothing(tmp_path):
    (tmp_path / "expected.py").write_text("def twice(x):\n    return 2 * x\n")
    tail = """
import unittest
from expected import twice

def test_plain():
    assert np.array_equal(nki.simulate(doubled)(x), twice(x))

class TestDoubled(unittest.TestCase):
    def test_it(self):
        self.assertTrue(np.allclose(nki.simulate(doubled)(x), twice(x)))
"""
    found = run(tail, tmp_path)
    assert (found.launches, found.comparisons, found.well) == (2, 2, True)


def test_the_old_file_is_also_run_if_possible(tmp_path):
    tail = "y = nki.simulate(doubled)(x)\nassert np.allclose(y, 2 * x)\n"
    path = tmp_path / "kernel.py"
    found, shown = compare(KERNEL + tail, KERNEL + "# new\n" + tail, path)
    assert found.well and shown == "the old file has the same outputs"
    found, shown = compare(KERNEL + tail + "nki.simulate(doubled)(x)\n", KERNEL + tail, path)
    assert not found.well and shown == "the migrated file launches fewer kernels"
    other = KERNEL.replace("2.0", "2.5") + "y = nki.simulate(doubled)(x)\n"
    found, shown = compare(KERNEL + tail, other, path)
    assert shown == "the old file runs, with other outputs" and found.error == "1 outputs differ from the old file"
    found, shown = compare("import neuronxcc.nki\n", KERNEL + tail, path)
    assert found.well and shown == "the old file does not run here, because neuronxcc is not installed"
    found, shown = compare("1 / 0\n", KERNEL + tail, path)
    assert found.well and shown.startswith("the old file does not run: 0 launches, nothing was compared; line 1")


def test_a_run_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("trninfer.simulator.migrate.check.SECONDS", 3.0)
    assert run("while True: pass\n", tmp_path).error == "it runs longer than 3 s"


def test_a_process_that_dies_is_reported(tmp_path):
    found = run("import os\nos._exit(7)\n", tmp_path)
    assert found.error == "the process that ran it ended with status 7"
    assert not Path("answer.json").exists()


def test_a_difference_that_rounding_explains_is_named(tmp_path):
    found = run("y = nki.simulate(doubled)(x)\nnp.allclose(y, 2.005 * x)\n", tmp_path)
    assert found.failures[0].endswith("the values differ by up to 0.249 % (a bfloat16 is rounded by up to 0.39 %)")


def test_a_comparison_that_is_expected_to_fail_succeeds_if_it_fails(tmp_path):
    tail = "y = nki.simulate(doubled)(x)\nassert not np.allclose(y, x)\n"
    assert run(tail, tmp_path).shown == "1 launch, 1 of 1 comparisons hold"
    found = run(tail.replace("(y, x)", "(y, 2 * x)"), tmp_path)
    assert not found.well and found.failures[0].endswith("numpy.allclose holds, but the file asserts that it does not")
