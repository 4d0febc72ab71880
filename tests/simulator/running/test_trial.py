"""Kernels run on the shapes that a file shows: findings, and that nothing else in the file runs."""

import json
import subprocess
import sys

import pytest
from trninfer.simulator.running.trial import find_refusals, has_example, read_shapes

HEAD = """\
import sys
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def kernel(a, scale=1.0):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out, src=tile)
    return out


"""
LINE = 13  # the line of the tile, which has at most 128 partitions
WRONG = {
    "in the program": "if __name__ == '__main__':\n    rows = ROWS * 2\n    kernel(np.ones((rows, 4), np.float32))\n",
    "at the top": "print(kernel(np.ones((256, 4), np.float32)))\n",
    "in a function": "def main():\n    a = np.ones((256, 4), np.float32)\n    out = kernel(a, scale=2.0)\n",
    "on two cores": "def main():\n    kernel[2](np.ones((256, 4), np.float32))\n",
    "simulated": "nki.simulate(kernel)(np.ones((256, 4), np.float32))\n",
    "by convention": "ARGS = [np.ones((256, 4), np.float32)]\n",
    "by a star": "args = [np.ones((256, 4), np.float32)]\nkernel(*args)\n",
}


def write(folder, text):
    path = folder / "kernels.py"
    path.write_text(HEAD + text)
    return path


@pytest.mark.parametrize("how", WRONG)
def test_a_call_with_too_many_rows_is_found(tmp_path, how):
    path = write(tmp_path, WRONG[how])
    assert has_example(path)
    (finding,) = find_refusals(path)
    assert (finding.line, finding.rule) == (LINE, "refused") and "partition dimension 256" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kernel(np.ones((128, 4), np.float32))\n",
        "kernel(unknown)\n",
        "def main(rows):\n    kernel(np.ones((rows, 4)))\n",
        "sys.exit(1)\nraise ValueError\nassert False\nwhile True: pass\n",
        "import not_installed_anywhere\nx = sys.exit(1)\n",
    ],
)
def test_nothing_is_found_and_nothing_else_runs(tmp_path, text):
    assert find_refusals(write(tmp_path, text)) == []


def test_shapes_stand_in_for_calls(tmp_path):
    path = write(tmp_path, "")
    assert find_refusals(path, "128x4") == [] == find_refusals(path, "other=256x4")
    for shapes in ("256x4:bfloat16", "kernel=256x4", "other=1x1 kernel=256x4"):
        (finding,) = find_refusals(path, shapes)
        assert finding.line == LINE


@pytest.mark.parametrize("text", ["128", "128x512:float16,4x4", "a=4x4 b=2x2"])
def test_shapes_are_read(text):
    assert all(specs for specs in read_shapes(text).values())


@pytest.mark.parametrize("text", ["x", "128x", "4x-1", "0x4", "kernel=", "4,,4"])
def test_shapes_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="write 128x512"):
        read_shapes(text)


def test_as_a_program(tmp_path):
    path = write(tmp_path, WRONG["at the top"])
    command = [sys.executable, "-m", "trninfer.simulator.running.trial", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ((shown, line, rule, _),) = json.loads(done.stdout)
    assert (shown, line, rule) == (str(path), LINE, "refused")


LOOP = """

@nki.jit
def loop(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    for i in range(0, a.shape[1], 512):
        nisa.dma_copy(dst=tile, src=a[:, i : i + 512])
        nisa.dma_copy(dst=out[:, i : i + 512], src=tile)
    return out
"""


def test_a_tile_whose_reuse_costs_time_is_a_warning(tmp_path):
    path = write(tmp_path, LOOP)
    line = path.read_text().splitlines().index("    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)") + 1
    (found,) = find_refusals(path, "loop=128x4096")
    assert (found.line, found.rule, found.is_warning) == (line, "reused-tile", True)
    assert found.message.startswith(f"loop: tile tile (kernels.py:{line}) is reused: 7 loads wait for its last reader")
    assert not find_refusals(path, "loop=128x512")
