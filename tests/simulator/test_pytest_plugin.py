"""The pytest plugin, used by a project that tests its kernels."""

import os
import re
import subprocess
import sys

import pytest

ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # if trninfer is installed, the plugin loads itself
TESTS = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def doubled(a, rows=128):
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows], src=a[0:rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


A = np.ones((128, 512), np.float32)


def test_right_and_fast(nki_run):
    run = nki_run(doubled, A, target="trn1")
    assert (run.outputs[0] == 2).all() and run.latency_us < 60 and run.memory.sbuf_bytes == 2048


def test_too_slow(nki_run):
    assert nki_run(doubled, A).latency_us < 1


def test_faulty(nki_run):
    nki_run(doubled, A, rows=64)


def test_too_wide(nki_run):
    nki_run(doubled, np.ones((129, 512), np.float32))


def test_over_its_limit(nki_run):
    assert nki_run(doubled, A, max_us=1000).latency_us < 1000
    nki_run(doubled, A, max_us=11)


def test_faulty_unchecked(nki_run):
    assert np.isnan(nki_run(doubled, A, rows=64, sanitize=False).outputs[0][64:]).all()
"""


def start(folder, *options):
    (folder / "test_kernels.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "trninfer.simulator.pytest_plugin", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ALONE, check=False).stdout


@pytest.fixture(params=["option", pytest.param("setting", marks=pytest.mark.slow)])
def output(request, tmp_path):
    if request.param == "setting":
        (tmp_path / "pytest.ini").write_text("[pytest]\nnki_simulator = true\n", encoding="utf-8")
        return start(tmp_path)
    return start(tmp_path, "--nki-simulator")


def test_a_project_asserts_values_time_and_memory(output):
    assert "4 failed, 2 passed" in output, output
    assert "us on trn2; the limit is 11 us" in output and "critical path: launch 10.20 us" in output
    assert re.search(r"test_kernels.py:\d+ [\d.]+ us \(dma_", output)
    assert "partition dimension 129 exceeds maximum 128" in output and "memory.py" not in output
    assert "uninitialised: tensor_scalar reads" in output and "test_too_slow" in output


def test_plugin_is_off_by_default(tmp_path):
    (tmp_path / "test_plain.py").write_text("def test(nki_run):\n    pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "trninfer.simulator.pytest_plugin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ALONE, check=False)
    assert "nki_run requires --nki-simulator" in done.stdout and done.returncode == 1


def pytest_in(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "trninfer.simulator.pytest_plugin", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ALONE, check=False)
    return done.stdout + done.stderr


def test_an_import_without_the_flag_names_the_flag(tmp_path):
    (tmp_path / "test_kernels.py").write_text("import nki\n\n\ndef test():\n    pass\n", encoding="utf-8")
    assert "pass --nki-simulator" in pytest_in(tmp_path)
    (tmp_path / "conftest.py").write_text("import nki.isa\n", encoding="utf-8")
    told = pytest_in(tmp_path)
    assert "pass --nki-simulator" in told and "Traceback" not in told
    assert "1 passed" in pytest_in(tmp_path, "--nki-simulator")


BASELINE_TEST = (
    TESTS.split("def test_right")[0]
    + """
def test_no_slower(nki_run):
    nki_run(doubled, A, baseline="times.json")
    nki_run(doubled, A, target="trn1", baseline="times.json")
"""
)


def test_a_kernel_that_becomes_slower_than_its_baseline_fails_by_line_and_resource(tmp_path):
    file = tmp_path / "test_kernels.py"
    file.write_text(BASELINE_TEST, encoding="utf-8")
    assert "has no baseline of test_kernels.py::test_no_slower doubled on trn2" in pytest_in(
        tmp_path, "--nki-simulator"
    )
    assert "1 passed" in pytest_in(tmp_path, "--nki-simulator", "--nki-update-baselines")
    slow = BASELINE_TEST.replace("operand0=2.0)", "operand0=2.0)\n    nisa.activation(dst=tile, op=nl.copy, data=tile)")
    file.write_text(f"# moved by a line\n{slow}", encoding="utf-8")
    told = pytest_in(tmp_path, "--nki-simulator")
    assert re.search(r"on trn2, [\d.]+ us in the baseline \(\+", told) and "critical path: scalar +" in told
    assert re.search(r"test_kernels.py:\d+ \+[\d.]+ us \(scalar .*new on the critical path\): nisa.activation", told)
    assert "dma_copy(dst=tile" not in told  # the line moved, but takes as long as before
