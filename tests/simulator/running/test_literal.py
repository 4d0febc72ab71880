"""Kernels whose sizes are all in their source: lint runs them without an example, and reports errors."""

import pytest
from trninfer.simulator.checking.lint import check_file
from trninfer.simulator.running.literal import LARGE, literal_kernels
from trninfer.simulator.running.trial import find_refusals, has_example

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl


def tile(columns=512, dtype=nl.float32, buffer=nl.sbuf, rows=128):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=buffer)


@nki.jit
def kernel(a):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=x)
    return out
"""
ILLEGAL = {
    "a helper's tile": "nisa.memset(dst=tile(rows=256), value=0.0)",
    "SBUF is full": "y, z = tile(30000), tile(30000)\n    nisa.memset(dst=y, value=0.0)\n"
    "    nisa.memset(dst=z, value=0.0)\n"
    "    nisa.tensor_tensor(dst=y, data1=y, data2=z, op=nl.add)",
    "nine banks": "ps = [tile(buffer=nl.psum) for _ in range(9)]\n    for p in ps:\n"
    "        nisa.tensor_copy(dst=p, src=x)\n    for p in ps:\n        nisa.tensor_copy(dst=x, src=p)",
    "columns of a matmul": "p = tile(256, buffer=nl.psum)\n    nisa.nc_matmul(dst=p, stationary=x[:, 0:128], moving=x)",
    "rows of a matmul": "y = tile(128, rows=64)\n    nisa.memset(dst=y, value=0.0)\n"
    "    nisa.nc_matmul(dst=tile(buffer=nl.psum), stationary=y, moving=x)",
    "an argument as operand": "nisa.tensor_scalar(dst=x, data=a, op0=nl.add, operand0=1.0)",
    "part of an argument as operand": "nisa.tensor_tensor(dst=x, data1=x, data2=a[0:128, :], op=nl.add)",
    "bits of floats": "nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.bitwise_and)",
    "sizes of a DMA": "y = tile(256)\n    nisa.dma_copy(dst=y, src=out)",
    "beyond the tile": "nisa.tensor_copy(dst=x, src=x[:, 256:768])",
    "beyond the rows": "nisa.tensor_copy(dst=x[64:192, :], src=x)",
    "an operand that is no column": "nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=x)",
    "a wide transpose": "nisa.nc_transpose(dst=tile(buffer=nl.psum), data=x)",
    "a partition off a quadrant": "nisa.tensor_copy(dst=x[10:20, :], src=x[0:10, :])",
    "no elements": "nl.ndarray((128, 0), dtype=nl.float32, buffer=nl.sbuf)",
    "one dimension": "nl.ndarray((128,), dtype=nl.float32, buffer=nl.sbuf)",
    "a reshape": "x.reshape((128, 256))",
    "a reduction's result": "nisa.tensor_reduce(dst=tile(2), data=x, op=nl.add, axis=1)",
    "rows of a tile": "for row in x:\n        nisa.tensor_copy(dst=row, src=row)",
    "a body of no parameter": "nl.fori_loop(0, 4, lambda: nisa.memset(dst=x, value=0.0))",
    "a tile of a loop's body": "kept = []\n    nl.fori_loop(0, 4, lambda i: kept.append(tile()))\n"
    "    nisa.tensor_copy(dst=kept[0], src=x)",
    "a store": "y = nl.load(a[0:128, 0:256])\n    nl.store(out[0:128, 0:128], y)",
}
LEGAL = {
    "slices of an argument": "nisa.dma_copy(dst=x[:, 0:256], src=a[0:128, 256:512])",
    "rows in a loop": "for i in range(4):\n        nisa.dma_copy(dst=x[i : i + 1, :], src=a[i : i + 1, 0:512])",
    "nine banks in turn": "for _ in range(9):\n        p = tile(buffer=nl.psum)\n"
    "        nisa.tensor_copy(dst=p, src=x)",
    "all of PSUM": "nisa.memset(dst=tile(4096, buffer=nl.psum), value=0.0)",
    "a column": "nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=x[:, 0:1])",
    "a trip count in memory": "n = tile(1, dtype=nl.int32, rows=1)\n    nisa.memset(dst=n, value=3)\n"
    "    nl.fori_loop(0, nisa.scalar_load(n), lambda i: nisa.memset(dst=x, value=0.0))",
    "a loop of the device": "nl.fori_loop(0, 4, lambda i: nisa.memset(dst=x, value=0.0))",
}


def write(folder, text):
    path = folder / "kernels.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", ILLEGAL)
def test_rejected_literals_are_found(tmp_path, case):
    path = write(tmp_path, HEAD + "    " + ILLEGAL[case] + TAIL)
    assert has_example(path)
    (found,) = find_refusals(path)
    assert found.rule == "refused" and found.line > 5


@pytest.mark.parametrize("case", LEGAL)
def test_accepted_literals_are_not_reported(tmp_path, case):
    path = write(tmp_path, HEAD + "    " + LEGAL[case] + TAIL)
    assert has_example(path) and not find_refusals(path) and not check_file(path)


@pytest.mark.parametrize(
    "use", ["n = a.shape[0]", "helper(a)", "x = nl.load(a)", "b = a", "for i in range(a):\n        pass", "a[:, 0:2]"]
)
def test_kernels_with_other_uses_of_a_parameter_are_not_run(tmp_path, use):
    path = write(tmp_path, HEAD + "    " + use + TAIL)
    assert not literal_kernels(path) and not has_example(path)


def test_shapes_fit_the_uses_of_parameters(tmp_path):
    text = (
        HEAD.replace("kernel(a)", "kernel(a, b, c, d, scale=1.0)")
        + """\
    nisa.dma_copy(dst=x[:, 0:128], src=b[0:128, 0:128])
    nisa.dma_copy(dst=x, src=c[2, :, 0:512])
    for i in range(2):
        nisa.dma_copy(dst=x, src=d[128 * i : 128 * i + 128, 0:512])
"""
    )
    found = literal_kernels(write(tmp_path, text + TAIL))["kernel"]
    assert [found[name].shape for name in "abcd"] == [(128, 512), (128, 128), (3, 128, 512), (LARGE, 512)]


def test_refusals_that_the_chosen_shapes_cause_are_left_out(tmp_path):
    use = "nisa.dma_copy(dst=x[:, 0:256], src=a)"
    assert not find_refusals(
        write(tmp_path, HEAD.replace("(dst=x, src=a)", "(dst=x[0:64], src=a)") + "    " + use + TAIL)
    )


@pytest.mark.parametrize(
    "lines",
    [
        "nisa.dma_copy(dst=out, src=tile())",
        "y = tile()\n    nisa.memset(dst=y[:, 0:256], value=0.0)\n    nisa.tensor_copy(dst=x, src=y)",
        "y = tile()\n    nisa.dma_copy(dst=y[:, 0:256], src=b[0:128, 0:256])\n    nisa.tensor_copy(dst=x, src=y)",
    ],
)
def test_memory_that_is_read_before_it_is_written_is_a_warning(tmp_path, lines):
    head = HEAD.replace("kernel(a)", "kernel(a, b)") if "b[" in lines else HEAD
    (found,) = find_refusals(write(tmp_path, head + "    " + lines + TAIL))
    assert found.rule == "uninitialised" and found.is_warning


def test_a_silenced_line_has_no_finding_of_a_run(tmp_path):
    line = "    nisa.tensor_copy(dst=x, src=x[:, 256:768])  # noqa: refused"
    assert not find_refusals(write(tmp_path, HEAD + line + TAIL))
