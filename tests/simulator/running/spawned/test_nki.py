"""Children of a process that has installed the simulator find nki, however they are started."""

import multiprocessing
import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing
import sys

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


def total(number):
    return copied(np.full((4, 4), number, np.float32)).sum()


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print([float(each) for each in pool.map(total, range(2))])
"""


@pytest.mark.parametrize("method", sorted({"spawn", "fork"} & set(multiprocessing.get_all_start_methods())))
def test_children_run_kernels(tmp_path, method):
    script = tmp_path / "kernels.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "trninfer", "simulate", str(script), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[0.0, 16.0]\n", done.stderr
    assert "terminated" not in done.stderr
