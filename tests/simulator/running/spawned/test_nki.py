"""Child processes of a process that has installed the simulator can import nki, however they are started."""

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
from trninfer.simulator.instructions.core import active

used = []


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    used.append((active().max_instructions, active().dge))
    return out


def total(number):
    return copied(np.full((4, 4), number, np.float32)).sum()


def settings(number):
    copied(np.full((4, 4), number, np.float32))
    return used[-1]


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print([float(each) for each in pool.map(total, range(2))])
"""


def simulate(*arguments):
    command = [sys.executable, "-m", "trninfer", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=pytest.mark.slow)])
def test_children_run_kernels(tmp_path, method):
    script = tmp_path / "kernels.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = simulate(script, method)
    assert done.stdout == "[0.0, 16.0]\n", done.stderr
    assert "terminated" not in done.stderr


def test_children_observe_the_options_of_simulate(tmp_path):
    script = tmp_path / "kernels.py"
    script.write_text(SCRIPT.replace("pool.map(total", "pool.map(settings").replace("float(each)", "each"))
    assert simulate("--max-instructions", 7, "--disable-dge", script, "spawn").stdout == "[(7, False), (7, False)]\n"
