"""The command that runs a script on the simulator."""

import subprocess
import sys

import pytest


def test_a_failing_script_shows_its_own_frames_only(tmp_path):
    done = run(tmp_path, "def fail():\n    raise ValueError('no luck')\n\nfail()\n")
    assert done.returncode == 1
    assert "no luck" in done.stderr and "broken.py" in done.stderr
    assert "runpy" not in done.stderr


KERNEL = """
import nki, nki.language as nl, nki.isa as nisa, numpy as np

@nki.jit
def kernel(a):
    tile = nl.load(a)
    {line}
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return {output}

kernel(np.ones((128, 4), np.float32))
"""


@pytest.mark.parametrize(
    ("line", "output", "shown", "message"),
    [
        ("nisa.tensor_copy(dst=tile[:, 0:2], src=tile)", "out", (12, 7), "NkiValidationError: tensor_copy: src "),
        ("nisa.tensor_copi(dst=tile, src=tile)", "out", (12, 7), "did you mean 'tensor_copy'?"),
        ("tile = tile * 2", "out", (12, 7), "OperatorError: * of sbuf[128, 4] float32: NKI has no operators"),
        ("assert a.shape[1] == 3, 'three columns'", "out", (12, 7), "AssertionError: three columns"),
        ("pass", "tile", (12,), "outputs must be in nl.shared_hbm"),
    ],
)
def test_a_kernel_that_breaks_a_rule_shows_its_own_lines_and_one_of_ours(tmp_path, line, output, shown, message):
    done = run(tmp_path, KERNEL.format(line=line, output=output))
    frames = [told.split(", ")[1] for told in done.stderr.splitlines() if told.startswith("  File ")]
    assert frames == [f"line {number}" for number in shown], done.stderr
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("text", "message"), [("def f(:\n", "SyntaxError"), ("\0", "null bytes")])
def test_a_file_that_is_no_python_is_named_without_a_frame_of_ours(tmp_path, text, message):
    done = run(tmp_path, text)
    assert done.returncode == 1 and message in done.stderr and "broken.py" in done.stderr
    assert "runpy" not in done.stderr and "script.py" not in done.stderr


def run(folder, text):
    (folder / "broken.py").write_text(text)
    command = [sys.executable, "-m", "trninfer.simulator", "broken.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
