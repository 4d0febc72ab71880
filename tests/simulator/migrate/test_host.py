"""Code around kernels: earlier ways to launch, simulate and time them."""

import numpy as np
import pytest
from migrated_kernels import FIRST

pytest.importorskip("libcst")
from trninfer.simulator.migrate import CANNOT, CHECK, migrate_source

KERNEL = FIRST + (
    "@nki.jit\ndef kernel(a):\n"
    "    out = nl.ndarray((256, 8), dtype=a.dtype, buffer=nl.shared_hbm)\n"
    "    row = nl.program_id(0) * 128 + nl.arange(128)[:, None]\n"
    "    column = nl.arange(8)[None, :]\n"
    "    nl.store(out[row, column], nl.load(a[row, column]) * 2)\n"
    "    return out\n\n\n@nki.jit\ndef plain(a):\n    return nl.load(a)\n\n\n"
)


def host(line):
    """A line behind two kernels, of which the first loops over its programs now."""
    migration = migrate_source(KERNEL + line + "\n")
    return migration.text.split("\n\n\n")[-1].strip("\n"), migration.notes


CALLS = {
    "y = nki.simulate_kernel(plain, a, b=2)": "y = nki.simulate(plain)(a, b=2)",
    "y = nki.simulate_kernel(kernel[2], a)": "y = nki.simulate(kernel)(a, grid=(2,))",
    "y = nki.simulate_kernel(plain[2], a)": "y = nki.simulate(plain[2])(a)",
    "y = kernel[2](a)": "y = kernel(a, grid=(2,))",
    "y = kernel[(2,)](a)": "y = kernel(a, grid=(2,))",
    "y = kernel[(n + 1) // 2](a)": "y = kernel(a, grid=((n + 1) // 2,))",
    "y = kernel[(nl.nc(2), 4)](a)": "y = kernel(a, grid=(2, 4))",
    "y = kernel[n // 128, m](a, b=c)": "y = kernel(a, b=c, grid=(n // 128, m))",
    "y = kernel[nl.nc(2), 4](a)": "y = kernel(a, grid=(2, 4))",
    "y = kernel[nl.spmd_dim(nl.nc(2), n), 4](a)": "y = kernel(a, grid=(2 * n, 4))",
    "y = kernel[2 * nl.nc(k)](a)": "y = kernel(a, grid=(2 * k,))",
    "y = plain[nl.nc(2)](a)": "y = plain[2](a)",
    "y = plain[2](a)": "y = plain[2](a)",
    "y = table[2](a)": "y = table[2](a)",
    "f = nki.baremetal(plain)": "f = plain",
    "f = nki.trace(plain)": "f = plain",
    'f = nki.jit(plain, mode="trace", debug=True)': "f = nki.jit(plain, debug=True)",
    'f = nki.jit(plain, platform_target="trn2")': "f = nki.jit(plain)",
    "f = nki.jit(plain, debug=True)": "f = nki.jit(plain, debug=True)",
}


def test_calls_of_earlier_entry_points():
    text, notes = host("\n".join(CALLS))
    assert text.splitlines() == list(CALLS.values()) and notes == ()


@pytest.mark.parametrize("line", ["f = nki.benchmark(plain)", "f = nki.profile(warmup=5, iters=2)(plain)"])
def test_what_timed_a_kernel_is_noted(line):
    text, (note,) = host(line)
    assert text == "f = plain" and (note.kind, note.line) == (CHECK, KERNEL.count("\n") + 1)
    assert note.message.startswith(line[4:].split("(")[0] + " is gone: the kernel itself is called")


def test_results_of_a_benchmark_are_left_to_the_author():
    line = "t = kernel.benchmark_result.nc_latency"
    text, (note,) = host(line)
    assert text == line and (note.kind, note.line) == (CANNOT, KERNEL.count("\n") + 1)
    assert note.message == "a kernel has no benchmark_result any more: time it on the chip, or with trninfer simulate"


def test_the_old_package_without_an_alias():
    text = migrate_source(
        "import neuronxcc.nki\n\n\n@neuronxcc.nki.jit\ndef kernel(a):\n"
        "    t = neuronxcc.nki.isa.tensor_copy(neuronxcc.nki.language.load(a[0:4, 0:4]))\n"
        "    print(neuronxcc.nki.language.tile_size.pmax)\n\n\nP = neuronxcc.nki.language.tile_size.pmax\n"
    ).text
    assert "neuronxcc" not in text and "\n@nki.jit\n" in text
    assert "print(nl.tile_size.pmax)" in text and "P = nki.language.tile_size.pmax" in text


def test_a_launch_computes_the_programs_of_its_grid(monkeypatch):
    a = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)
    space = {"__name__": "host", "a": a}
    exec(compile(migrate_source(KERNEL + "y = nki.simulate_kernel(kernel[2], a)\n").text, "<host>", "exec"), space)
    np.testing.assert_array_equal(space["y"], a * 2)
